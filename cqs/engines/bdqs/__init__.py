"""The engine `bdqs`, on Cassandra alone: an index (T, id) per queue, sorted by the time T from which a message is
visible, apart from the bodies. It follows the BlueDove Queuing Service (seed 004).

A receive takes one of the oldest K messages and moves it to the end of its visibility timeout. There are no timers and
no locks between processes, so two processes may take one message at the same time. `consistency` says what each mode
guarantees, `order_hint` what K is, `positions` why no message is lost and no deleted one returns.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cqs.engines.bdqs.deliveries import BdqsDeliveries
from cqs.engines.bdqs.due_times import POLL_INTERVAL_S
from cqs.engines.bdqs.engine import BdqsEngine, EngineParts
from cqs.engines.bdqs.expired import BdqsExpiredMessages
from cqs.engines.bdqs.ids import NODE_DIGITS, Stamps
from cqs.engines.bdqs.index import QueueIndex
from cqs.engines.bdqs.known_queues import new_known_queues
from cqs.engines.bdqs.maintenance import BdqsMaintenance
from cqs.engines.bdqs.messages import Buckets, Messages
from cqs.engines.bdqs.positions import Positions
from cqs.engines.bdqs.quorum_fallback import QuorumFallback
from cqs.engines.bdqs.reading import QueueReader
from cqs.engines.bdqs.sender import BdqsSender
from cqs.engines.bdqs.settler import BdqsSettler
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cassandra.standard_engine import QueueRecords
from cqs.engines.waiters import WaiterRegistry

__all__ = ["BdqsEngine", "open_engine"]

ENGINE = "bdqs"
MAINTENANCE_INTERVAL_S = 15.0
COUNT_INTERVAL_S = 1.0


@contextlib.asynccontextmanager
async def open_engine(cassandra: Cassandra, clock: Clock, skew: ClockSkew) -> AsyncIterator[BdqsEngine]:
    """The engine and its background tasks."""
    node, waiters = hex_id()[:NODE_DIGITS], WaiterRegistry(clock)
    records = QueueRecords.of(cassandra, ENGINE)
    shared = QuorumFallback(clock)
    index, messages = QueueIndex(cassandra, shared, clock), Messages(cassandra, clock)
    positions = Positions(index, messages, Stamps(clock, node), clock)
    known_queues = new_known_queues(records.generations, shared, index, clock)
    expired = BdqsExpiredMessages(messages, records.expired, records.retentions, shared)
    deliveries = BdqsDeliveries(messages, positions, expired)
    parts = EngineParts(
        records=records,
        known_queues=known_queues,
        sender=BdqsSender(messages, positions, Buckets(node)),
        deliveries=deliveries,
        settler=BdqsSettler(messages, positions, deliveries),
        reading=QueueReader(index, messages, clock, node),
        maintenance=BdqsMaintenance(index, messages, positions, expired, records.garbage, known_queues, clock),
    )
    engine = BdqsEngine(parts, waiters, clock, skew)
    counting = parts.reading.read_step, COUNT_INTERVAL_S
    async with engine.running(ENGINE, POLL_INTERVAL_S, MAINTENANCE_INTERVAL_S, counting):
        yield engine
