"""The queue port's inline driver: the engine contract in this process (or, for a worker, its remote driver).

Job queues live in the reserved account `cns`, which no credential names, so no tenant can see or reach them. They are
fair queues: the group of a publish job is its account, of an endpoint job its topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from cns.delivery.jobs import INTERNAL_QUEUES
from cns.queue_port.contract import Held, Numbered, Put, QueueMessage, Refused, Renewal
from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.contract import Change, Engine, Entry, Message, Outcome, QueueRef, Rejected, Sent, Settlement
from cqs.internal_queues import internal_ref
from cqs.messages.send import sequence_text

Deliver = Callable[[str, Sequence[QueueMessage], str], Awaitable[list[str | Refused]]]
"""How a customer's queue is sent to: the queue service, as the topic's service principal."""

REFS = {name: internal_ref(name) for name in INTERNAL_QUEUES}


class InlineQueuePort:
    """See `cns.queue_port.contract.QueuePort`."""

    def __init__(self, engine: Engine, clock: Clock, deliver: Deliver) -> None:
        self._engine = engine
        self._clock = clock
        self._deliver = deliver
        self._waits = engine.waits()

    def stop_waiting(self) -> None:
        """Receives that wait return empty from now on; one under way in the engine still hands out its leases."""
        self._waits.stop()

    async def close(self) -> None:
        """Nothing here is its own."""

    async def put(self, puts: Sequence[Put]) -> None:
        now_ms = self._clock.now_ms()
        if len({put.queue for put in puts}) == 1:
            await self._engine.send(REFS[puts[0].queue], [_entry(put, now_ms) for put in puts], now_ms)
        elif puts:
            await self._engine.settle(Settlement(sends=_sends(puts, now_ms)), now_ms)

    async def put_in_order(self, puts: Sequence[Put]) -> list[Numbered]:
        now_ms = self._clock.now_ms()
        sent = await self._engine.send(REFS[puts[0].queue], [_entry(put, now_ms) for put in puts], now_ms)
        return [_numbered(each) for each in sent]

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[Held]:
        q = REFS[queue]
        received = await self._waits.receive(q, n, lease_ms, wait_s)
        return [_held(q, message) for message in received.messages]

    async def settle(
        self, queue: str, done: Sequence[str] = (), puts: Sequence[Put] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        now_ms = self._clock.now_ms()
        q = REFS[queue]
        settled = await self._engine.settle(
            Settlement(
                deletes=tuple([(q, bytes.fromhex(handle)) for handle in done]),
                sends=_sends(puts, now_ms),
                changes=tuple(
                    [
                        (
                            REFS[renewal.queue],
                            Change(bytes.fromhex(renewal.handle), now_ms + renewal.visible_in_ms, renewal.body),
                        )
                        for renewal in renewals
                    ]
                ),
            ),
            now_ms,
        )
        return [outcome is Outcome.DONE for outcome in settled.deletes]

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refused]:
        return await self._deliver(queue_arn, messages, topic_arn)

    async def depth(self, queue: str) -> int:
        counts = await self._engine.counts(REFS[queue], self._clock.now_ms())
        return counts.visible + counts.in_flight + counts.delayed


def _held(q: QueueRef, message: Message) -> Held:
    if not q.fifo:
        return Held(message.id, message.handle.hex(), message.body, message.deliveries)
    number = sequence_text(message.sequence)
    return Held(message.id, message.handle.hex(), message.body, message.deliveries, message.group, number)


def _numbered(sent: Sent | Rejected) -> Numbered:
    if isinstance(sent, Rejected):
        raise StoreUnavailable(f"a queue of CNS's own refuses a job: {sent.reason}")
    return Numbered(sent.id, sequence_text(sent.sequence), sent.duplicate)


def _entry(put: Put, now_ms: int) -> Entry:
    return Entry(put.id, put.body, now_ms, now_ms + put.delay_ms, put.group, put.dedup)


def _sends(puts: Sequence[Put], now_ms: int) -> tuple[tuple[QueueRef, Entry], ...]:
    return tuple([(REFS[put.queue], _entry(put, now_ms)) for put in puts])
