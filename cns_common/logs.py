"""Logs: one structured line per event, on standard error."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress

import structlog
from structlog.typing import EventDict, WrappedLogger


def set_up_logs(level: str, process: str) -> None:
    """Write JSON lines, or coloured text on a terminal. `process` is a field of every line."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            format_error,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: StandardErrorLogger(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


class StandardErrorLogger(structlog.PrintLogger):
    """Drops a line that cannot be written, to a full disk or a pipe that nobody reads: it must not make its caller
    fail."""

    def msg(self, message: str) -> None:
        with suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def format_error(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """As structlog's `format_exc_info`, but it never raises. To mark places in a traceback Python parses its lines, and
    until 3.11.8 that raises SystemError (CPython's issue 106905) if a finalizer that runs meanwhile logs an error."""
    error = event.get("exc_info")
    try:
        return structlog.processors.format_exc_info(logger, name, event)
    except Exception as failure:  # noqa: BLE001  # a log line must not make its caller fail
        shown = error if isinstance(error, BaseException) else failure
        event.pop("exc_info", None)
        return {**event, "exception": "".join(traceback.format_exception_only(shown)).rstrip()}
