"""Turns Celery's log lines into structured events, so that a process writes one kind of line."""

from __future__ import annotations

import logging

import structlog

from cns_common.logs import set_up_logs

log = structlog.get_logger(__name__)


def set_up_celery_logs(level: str) -> None:
    set_up_logs(level, "celery")
    root = logging.getLogger()
    root.handlers = [_EventHandler()]
    root.setLevel(level.upper())


class _EventHandler(logging.Handler):
    """Logs each record of the standard library's loggers as the event `celery.message_logged`."""

    def emit(self, record: logging.LogRecord) -> None:
        log.log(
            record.levelno,
            "celery.message_logged",
            logger=record.name,
            text=record.getMessage(),
            exc_info=record.exc_info,
        )
