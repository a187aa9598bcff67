"""The queue service: its parts, built over a queue store, engines and a clock."""

from __future__ import annotations

from collections.abc import Mapping

from cns_common.clock import Clock
from cqs.engines.contract import Engine
from cqs.internal_queues import check_internal_engine
from cqs.limits import PURGE_WAIT_S, RECREATE_WAIT_S
from cqs.messages.dead_letters import DeadLetters
from cqs.messages.delete_and_visibility import InFlightMessages
from cqs.messages.receive import MessageReceiver
from cqs.messages.send import MessageSender
from cqs.queues.cache import QueueCache
from cqs.queues.queues import Queues
from cqs.redrive.mover import MessageMover
from cqs.redrive.tasks import MoveTasks
from cqs.stores.contract import MoveTaskStore, QueueStore


class QueueService:
    """The parts that the API operations use, and other packages of this program directly."""

    def __init__(
        self,
        store: QueueStore,
        moves: MoveTaskStore,
        engines: Mapping[str, Engine],
        clock: Clock,
        *,
        receipt_key: bytes,
        default_engine: str = "embedded",
        recreate_wait_s: int = RECREATE_WAIT_S,
        purge_wait_s: int = PURGE_WAIT_S,
    ) -> None:
        check_internal_engine(default_engine, engines[default_engine].capabilities)
        self.clock = clock
        self.cache = QueueCache(store, engines, default_engine, receipt_key)
        self.queues = Queues(
            store,
            self.cache,
            engines,
            clock,
            default_engine=default_engine,
            recreate_wait_s=recreate_wait_s,
            purge_wait_s=purge_wait_s,
        )
        self.sender = MessageSender(clock)
        self.receiver = MessageReceiver(clock, DeadLetters(self.cache))
        self.in_flight = InFlightMessages(clock)
        self.move_tasks = MoveTasks(moves, store, clock)
        self.mover = MessageMover(moves, self.cache, clock)

    async def start(self) -> None:
        """Drop the deleted queues that an earlier process did not drop from their engines."""
        await self.queues.drop_deleted()
