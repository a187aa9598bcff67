"""The queue service: its parts, built over a queue store, engines and a clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cns_common.clock import Clock
from cns_common.events.audit_log import AuditLog, NoAuditLog
from cqs.engines.contract import Engine
from cqs.internal_queues import check_internal_engine
from cqs.messages.counters import QueueCounters
from cqs.messages.dead_letters import DeadLetters
from cqs.messages.delete_and_visibility import InFlightMessages
from cqs.messages.leased import LeasedMessages
from cqs.messages.queue_audit import QueueAudit
from cqs.messages.receive import MessageReceiver
from cqs.messages.send import MessageSender
from cqs.messages.transfer import MessageTransfer
from cqs.queues.cache import QueueCache
from cqs.queues.queues import Queues, QueueWaits
from cqs.redrive.mover import MessageMover
from cqs.redrive.tasks import MoveTaskList
from cqs.stores.contract import MoveTaskStore, QueueStore

_AWS_WAITS = QueueWaits()


class EngineRoles(NamedTuple):
    """The names of the engines that queues get whose CreateQueue names none."""

    new_queues: str
    """The engine of customers' queues that are created without the attribute `Engine`."""
    internal: str
    """The engine of CNS's own queues."""


_EMBEDDED = EngineRoles("embedded", "embedded")


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
        audit_log: AuditLog | None = None,
        roles: EngineRoles = _EMBEDDED,
        waits: QueueWaits = _AWS_WAITS,
    ) -> None:
        check_internal_engine(roles.internal, engines[roles.internal].capabilities)
        audit = QueueAudit(audit_log or NoAuditLog(), clock)
        counters = QueueCounters()
        transfer = MessageTransfer(counters, audit)
        self.clock = clock
        self.cache = QueueCache(store, engines, roles.internal, receipt_key)
        self.queues = Queues(
            store,
            self.cache,
            engines,
            clock,
            audit,
            default_engine=roles.new_queues,
            waits=waits,
        )
        self.counters = counters
        self.sender = MessageSender(clock, counters, audit)
        self.receiver = MessageReceiver(clock, DeadLetters(self.cache, transfer), counters, audit)
        self.in_flight = InFlightMessages(clock, counters, audit)
        self.leased = LeasedMessages(clock, counters, audit)
        self.move_tasks = MoveTaskList(moves, store, clock)
        self.mover = MessageMover(moves, self.cache, transfer, clock)

    async def start(self) -> None:
        """Drop the deleted queues that an earlier process did not drop from their engines."""
        await self.queues.drop_deleted()
