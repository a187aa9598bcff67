"""Replays of topic archives, each from the position in its record."""

from __future__ import annotations

from collections.abc import Sequence

from cns.archives.replay import Replay
from cns.archives.replay_worker import ReplayWorker
from cns.stores.contract import ReplayStore
from cns_workers.background.leased_tasks import TaskKind, TaskRun

POLL_INTERVAL_S = 0.5
REST_S = 2.0
"""The pause of a replay that waits for its end time or for room in the queue."""


class Replays(TaskKind[Replay]):
    name = "replay"
    poll_interval_s = POLL_INTERVAL_S

    def __init__(self, replays: ReplayStore, replay_worker: ReplayWorker) -> None:
        self._replays = replays
        self._replay_worker = replay_worker

    async def active(self) -> Sequence[Replay]:
        return await self._replays.active()

    async def run(self, task: Replay, run: TaskRun) -> float:
        while await run.may_continue():
            if not await self._replay_worker.step(task):
                return REST_S
        return 0.0
