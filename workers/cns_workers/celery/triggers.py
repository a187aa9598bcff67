"""Sends Celery's tasks from the worker's event loop, which must not wait for the broker."""

from __future__ import annotations

import queue
import threading
from time import monotonic
from typing import Any

import structlog
from celery import Celery

from cns_workers.celery.tasks import RUN_OF_KIND

WAITING_MAX = 100
EXPIRES_S = 60
"""A task that waits longer expires: beat's next sweep sends it again."""
AWAY_S = 30.0
"""After a failure nothing is sent for this long: meanwhile the worker's loops run the tasks that they find."""

log = structlog.get_logger(__name__)


class TaskTriggers:
    """Sends tasks from a thread of its own: the broker may be away or silent, and callers must not wait for it."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._away_until_s = 0.0
        self._thread: threading.Thread | None = None

    def send(self, kind: str, record: str) -> bool:
        """Send the task that runs this record. Returns False if the broker does not take it now."""
        if monotonic() < self._away_until_s or self._waiting.qsize() >= WAITING_MAX:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cns-triggers", daemon=True)
            self._thread.start()
        self._waiting.put((RUN_OF_KIND[kind], record))
        return True

    def _run(self) -> None:
        while True:
            name, record = self._waiting.get()
            try:
                self._send(name, record)
            except Exception as error:  # noqa: BLE001  # any of the broker's library: the worker's loops run the record
                self._away_until_s = monotonic() + AWAY_S
                log.warning("celery_task.send_failed", task=name, error=str(error))

    def _send(self, name: str, record: str) -> None:
        options: dict[str, Any] = {"expires": EXPIRES_S, "retry": False}
        self._app.send_task(name, args=(record,), **options)
