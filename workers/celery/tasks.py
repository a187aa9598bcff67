"""Celery's tasks. They only trigger work that is recorded in the store, so a lost task loses nothing."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import structlog
from celery import shared_task

from cns_common.errors import CnsError
from workers.worker import Worker

MAINTENANCE = "maintenance.run"

log = structlog.get_logger(__name__)


@shared_task(name=MAINTENANCE, bind=True)
def maintenance(task: Any) -> None:
    """Have the worker of this process run maintenance, unless another worker runs it."""
    try:
        rows = task.app.host.call(_maintain, timeout_s=None)
    except (CnsError, CancelledError) as error:  # the loops of the workers run it later
        log.warning("maintenance.failed", error=str(error))
        return
    log.info("maintenance.ended" if rows is not None else "maintenance.skipped", rows=rows, trigger=task.request.id)


async def _maintain(worker: Worker) -> int | None:
    return await worker.maintenance.run()
