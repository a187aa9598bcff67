"""Fills a queue through its engine's own send, in this process: many large batches at a time, without HTTP."""

from __future__ import annotations

import asyncio
import hashlib

from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.ids import uuid_text
from cqs.engines.contract import Engine, Entry, QueueRef, RejectedEntry
from cqs.queues.model import Body, encode_body
from cqs.queues.urls import key_of_arn
from cqs.queues.view import view_of
from cqs.stores.cassandra.queues import CassandraQueueStore
from lab.harness import servers
from lab.harness.ring_engine import Place, process
from lab.load.wire import Budget, LoadError

ENTRIES = 100
"""Messages of a batch: at ten, as over SQS, a statement is sent for each ten."""
AT_ONCE = 128
PAUSE_S = 0.1
"""After a failure: a store that is too busy is not asked again at once."""
SENDER = "bench"


async def fill_by_engine(
    place: CassandraAddress, engine: str, arn: str, text: str, messages: int, seconds: float
) -> int:
    """Fill a queue of an engine of the cluster form. Returns how many messages were sent in time."""
    async with process(Place(place, engine, servers.redis_url())) as opened:
        key = key_of_arn(arn)
        queue = None if key is None else await CassandraQueueStore(opened.cassandra).get(key)
        if queue is None:
            raise LoadError(f"there is no queue {arn}")
        ref = view_of(queue, opened.engine, b"").ref
        return await send_all(opened.engine, ref, opened.clock, text, messages, seconds)


async def send_all(engine: Engine, q: QueueRef, clock: Clock, text: str, messages: int, seconds: float) -> int:
    """Send until all were sent or the time is over. A batch that fails is sent again, so that some of its messages may
    be there twice. Returns how many messages were acknowledged."""
    budget = Budget(messages, seconds)
    md5 = hashlib.md5(text.encode()).hexdigest()

    async def send_batches() -> int:
        sent = 0
        while n := min(ENTRIES, budget.left):
            if not budget.take(n):
                break
            now_ms = clock.now_ms()
            body = encode_body(Body(text, md5, SENDER, now_ms))
            try:
                answers = await engine.send(q, [Entry(uuid_text(), body, now_ms, now_ms) for _ in range(n)], now_ms)
            except CnsError:
                budget.left += n
                await asyncio.sleep(PAUSE_S)
                continue
            if any(isinstance(answer, RejectedEntry) for answer in answers):
                raise LoadError("an entry of a batch was refused")
            sent += n
        return sent

    return sum(await asyncio.gather(*[send_batches() for _ in range(AT_ONCE)]))
