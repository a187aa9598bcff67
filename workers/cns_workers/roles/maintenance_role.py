"""The role `maintenance`: move tasks, replays, and records that have expired."""

from __future__ import annotations

import asyncio

from cns.archives.replay_worker import ReplayWorker
from cns_common.metrics.model import Sample
from cns_workers.background.leased_tasks import LeasedTaskRunner, Trigger
from cns_workers.background.maintenance import Maintenance
from cns_workers.background.move_tasks import MoveTasks
from cns_workers.background.replays import Replays
from cns_workers.loops import Step
from cns_workers.roles.contract import DrainResult, Role, WorkerContext
from cqs.messages.expired import ExpiredMessages


class MaintenanceRole(Role):
    sleeping_loops = ("maintenance", "moves", "replays")

    def __init__(self, context: WorkerContext) -> None:
        backend = context.backend
        engines = tuple(backend.engines.values())
        self.moves = LeasedTaskRunner(
            MoveTasks(backend.move_tasks, context.queues.mover, backend.clock), backend.leases, backend.clock
        )
        replay_worker = ReplayWorker(
            backend.replays,
            backend.archives,
            backend.topics,
            backend.subscriptions,
            context.port,
            backend.clock,
            context.events,
        )
        self.replays = LeasedTaskRunner(Replays(backend.replays, replay_worker), backend.leases, backend.clock)
        swept = (
            backend.notifications,
            backend.subscriptions,
            backend.archives,
            backend.outbox,
            backend.mobile_endpoints,
            ExpiredMessages(engines, context.audit),  # last: a disk that hangs delays it
        )
        self.maintenance = Maintenance(engines, swept, backend.leases, backend.clock)
        self.confirmations = Maintenance((), (backend.subscriptions,), backend.leases, backend.clock)
        """Removes only subscriptions that were not confirmed in time. Takes the same lease as `maintenance`."""

    def ask_first(self, trigger: Trigger) -> None:
        """Ask another worker by `trigger` first; run a recorded task here only if none begins it in time."""
        self.moves.trigger = self.replays.trigger = trigger

    def steps(self) -> dict[str, Step]:
        return {"maintenance": self.maintenance.step, "moves": self.moves.step, "replays": self.replays.step}

    def samples(self) -> list[Sample]:
        return []

    async def leave(self) -> None:
        await asyncio.gather(self.moves.close(), self.replays.close())

    async def drain(self, grace_s: float) -> DrainResult:
        """Nothing is left to drain: `leave` ended the work, and another worker continues it."""
        return DrainResult()
