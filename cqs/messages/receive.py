"""Receiving: short and long polls, and spent messages moved out of the way."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.aws.call import WhenGone
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cqs.engines.contract import Message, ReceiveResult
from cqs.messages.dead_letters import DeadLetters
from cqs.queues.urls import no_such_queue
from cqs.queues.view import QueueView

SPENT_ROUNDS_MAX = 100
"""How many batches of spent messages one receive moves before it answers with what it has."""


class Wish(NamedTuple):
    """What one receive asks for."""

    want: int
    visibility_ms: int
    wait_ms: int = 0
    attempt_id: str = ""


class Delivery(NamedTuple):
    received_at_ms: int  # a repeated attempt's leases date from its first
    messages: tuple[Message, ...]


class Receiving:
    def __init__(self, clock: Clock, dead_letters: DeadLetters) -> None:
        self._clock = clock
        self._dead_letters = dead_letters

    async def receive(self, view: QueueView, wish: Wish, when_gone: WhenGone | None = None) -> Delivery:
        now_ms = self._clock.now_ms()
        received = await self._take(view, wish, now_ms)
        if received.messages:
            return Delivery(received.received_at_ms or now_ms, received.messages)
        if received.dropped:
            raise no_such_queue()
        if wish.wait_ms:
            return await self._poll(view, wish, now_ms + wish.wait_ms, when_gone)
        if received.limit_reached and not view.fifo:
            raise RequestError("OverLimit", "The maximum number of in flight messages is reached.")
        return Delivery(now_ms, ())

    async def _poll(self, view: QueueView, wish: Wish, until_ms: int, when_gone: WhenGone | None) -> Delivery:
        """Wait for messages, until the deadline, the end of the queue, or that of the caller's patience."""
        wakeups = view.engine.waiter(view.ref)
        deadline = self._clock.call_at(until_ms, wakeups.close)
        if when_gone is not None:
            when_gone(wakeups.close)
        try:
            while not wakeups.closed:  # receive once more first: what came before the waiter was registered woke nobody
                now_ms = self._clock.now_ms()
                received = await self._take(view, wish, now_ms)
                if received.messages or received.dropped:
                    return Delivery(received.received_at_ms or now_ms, received.messages)
                await wakeups.wait()
            return Delivery(self._clock.now_ms(), ())
        finally:
            deadline.cancel()
            wakeups.close()

    async def _take(self, view: QueueView, wish: Wish, now_ms: int) -> ReceiveResult:
        """What can be received now."""
        ref = view.ref
        target = None
        if view.dead_letter_key is not None:
            target = await self._dead_letters.target(view)
            if target is None:
                ref = view.undying
        received = await view.engine.receive(ref, wish.want, now_ms + wish.visibility_ms, now_ms, wish.attempt_id)
        if not received.spent or target is None:
            return received
        messages, received_at_ms = received.messages, received.received_at_ms or now_ms
        # a second look would give out again what is not hidden; and the attempt is known now by the messages it got
        one_look = not wish.visibility_ms or bool(wish.attempt_id)
        for _ in range(SPENT_ROUNDS_MAX):
            await self._dead_letters.move(view, target, received.spent, now_ms)
            missing = wish.want - len(messages)
            if not missing or (messages and one_look):
                break
            now_ms = self._clock.now_ms()  # moving takes time, which is not to be missing from the messages' own
            received = await view.engine.receive(ref, missing, now_ms + wish.visibility_ms, now_ms, wish.attempt_id)
            received_at_ms = received_at_ms if messages else received.received_at_ms or now_ms
            messages += received.messages
            if not received.spent:
                break
        return ReceiveResult(
            messages, (), received.next_due_ms, received.limit_reached, received.dropped, received_at_ms
        )
