"""Celery's tasks. They only trigger work that is recorded in the store, so a lost task loses nothing.

`moves.run` and `replays.run` run one recorded task under its lease and last as long as it does, so that `celery inspect
active` and Flower show what is under way. The worker that finds the record sends them, and so do beat's sweeps; if they
do not begin within seconds, a worker's own loop runs the record.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import structlog
from celery import shared_task

from cns_common.errors import CnsError
from cns_workers.roles.maintenance_role import MaintenanceRole
from cns_workers.worker import Worker

MAINTENANCE = "maintenance.run"
CONFIRMATIONS = "confirmations.expire"
MOVE = "moves.run"
MOVES = "moves.sweep"
REPLAY = "replays.run"
REPLAYS = "replays.sweep"
RUN_OF_KIND = {"move": MOVE, "replay": REPLAY}
"""The task that runs one record, by the kind of `cns_workers.background.leased_tasks.TaskKind`."""

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")


@shared_task(name=MAINTENANCE, bind=True)
def maintenance(task: Any) -> None:
    """Remove what has expired, unless another worker does."""
    _report(task, _ask(task, lambda role: role.maintenance.run()))


@shared_task(name=CONFIRMATIONS, bind=True)
def confirmations(task: Any) -> None:
    """Remove subscriptions that were not confirmed in time, unless another worker does."""
    _report(task, _ask(task, lambda role: role.confirmations.run()))


@shared_task(name=MOVE, bind=True)
def move(task: Any, task_id: str) -> None:
    """Run one message move task, such as the redrive of a dead-letter queue, unless another run has it."""
    _log_run(task, task_id, _ask(task, lambda role: role.moves.run_until_over(task_id)))


@shared_task(name=REPLAY, bind=True)
def replay(task: Any, replay_id: str) -> None:
    """Run one replay of a topic's archive, unless another run has it."""
    _log_run(task, replay_id, _ask(task, lambda role: role.replays.run_until_over(replay_id)))


@shared_task(name=MOVES, bind=True)
def sweep_moves(task: Any) -> None:
    """Send `moves.run` for each recorded move task that does not run in this worker."""
    _ask(task, lambda role: role.moves.sweep())


@shared_task(name=REPLAYS, bind=True)
def sweep_replays(task: Any) -> None:
    """Send `replays.run` for each recorded replay that does not run in this worker."""
    _ask(task, lambda role: role.replays.sweep())


def _ask(task: Any, work: Callable[[MaintenanceRole], Coroutine[Any, Any, Answer]]) -> Answer | None:
    """Run `work` in the worker of this process. None if that fails: worker loops, here or elsewhere, do it later."""

    async def run(worker: Worker) -> Answer | None:
        return None if worker.maintenance is None else await work(worker.maintenance)

    try:
        answer: Answer | None = task.app.host.call(run, timeout_s=None)
    except (CnsError, CancelledError) as error:
        log.warning("celery_task.failed", task=task.name, error=str(error), trigger=task.request.id)
        return None
    return answer


def _report(task: Any, rows: int | None) -> None:
    event = "maintenance.ended" if rows is not None else "maintenance.skipped"
    log.info(event, task=task.name, rows=rows, trigger=task.request.id)


def _log_run(task: Any, record: str, ran: bool | None) -> None:
    log.info("recorded_task.ended" if ran else "recorded_task.skipped", task=task.name, record=record)
