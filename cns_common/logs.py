"""Logs: one structured line an event, on standard error."""

from __future__ import annotations

import logging
import sys
import traceback

import structlog
from structlog.typing import EventDict, WrappedLogger


def set_up_logs(level: str, process: str) -> None:
    """JSON lines, or coloured text where a person looks on."""
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def format_error(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """As structlog does, but whoever logs goes on, whatever comes of it. Python parses the lines of a traceback to mark
    the places in them, which until 3.11.8 may raise SystemError (CPython's issue 106905): where a finalizer that runs
    in the midst of it logs an error, too."""
    error = event.get("exc_info")
    try:
        return structlog.processors.format_exc_info(logger, name, event)
    except Exception as failure:  # noqa: BLE001  # a line less is no reason to fail
        shown = error if isinstance(error, BaseException) else failure
        event.pop("exc_info", None)
        return {**event, "exception": "".join(traceback.format_exception_only(shown)).rstrip()}
