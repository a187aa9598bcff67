"""ReceiveMessage: short and long polls. Spent messages met on the way are moved to the dead-letter queue."""

from __future__ import annotations

from typing import NamedTuple

from cns_common.aws.call import WhenGone
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, RequestError, StoreUnavailable
from cqs.engines.contract import Message, ReceiveResult
from cqs.engines.long_poll import poll
from cqs.messages.counters import QueueCounters
from cqs.messages.dead_letters import DeadLetters
from cqs.messages.queue_audit import QueueAudit
from cqs.queues.urls import no_such_queue
from cqs.queues.view import QueueView

SPENT_ROUNDS_MAX = 100
"""Batches of spent messages that one receive moves before it returns what it has."""


class ReceiveRequest(NamedTuple):
    want: int
    visibility_ms: int
    wait_ms: int = 0
    attempt_id: str = ""


class Delivery(NamedTuple):
    received_at_ms: int  # under a repeated attempt id: when its leases were first given
    messages: tuple[Message, ...]


class MessageReceiver:
    def __init__(self, clock: Clock, dead_letters: DeadLetters, counters: QueueCounters, audit: QueueAudit) -> None:
        self._clock = clock
        self._dead_letters = dead_letters
        self._counters = counters
        self._audit = audit

    async def receive(self, view: QueueView, request: ReceiveRequest, when_gone: WhenGone | None = None) -> Delivery:
        """Wait up to `request.wait_ms` for the first message. `when_gone` registers a callback for the moment when the
        caller disconnects. Raises RequestError for a dropped queue and for OverLimit (standard queues)."""
        if view.audit:
            self._audit.check()
        now_ms = self._clock.now_ms()
        received = await self._receive_now(view, request, now_ms)
        if received.messages:
            return Delivery(received.received_at_ms or now_ms, received.messages)
        if received.dropped:
            raise no_such_queue()
        if request.wait_ms:
            return await self._poll(view, request, now_ms + request.wait_ms, when_gone)
        if received.limit_reached and not view.fifo:
            raise RequestError("OverLimit", "The maximum number of in flight messages is reached.")
        return Delivery(now_ms, ())

    async def _poll(
        self, view: QueueView, request: ReceiveRequest, until_ms: int, when_gone: WhenGone | None
    ) -> Delivery:
        """Wait for messages until the deadline, the end of the queue, or the disconnect of the caller."""
        waiter = view.engine.waiter(view.ref)
        deadline = self._clock.call_at(until_ms, waiter.close)
        if when_gone is not None:
            when_gone(waiter.close)
        now_ms = until_ms

        async def receive() -> ReceiveResult:
            nonlocal now_ms
            now_ms = self._clock.now_ms()
            return await self._receive_now(view, request, now_ms)

        try:
            received = await poll(waiter, receive)
            return Delivery(received.received_at_ms or now_ms, received.messages)
        except (StoreUnavailable, OutcomeUnknown):  # an empty answer is right, too: the next poll waits for the store
            return Delivery(now_ms, ())
        finally:
            deadline.cancel()

    async def _receive_now(self, view: QueueView, request: ReceiveRequest, now_ms: int) -> ReceiveResult:
        received = await self._lease(view, request, now_ms)
        self._counters.add_received(view, received.messages)
        if view.audit and received.messages:
            await self._audit.received(view, received.messages)
        return received

    async def _lease(self, view: QueueView, request: ReceiveRequest, now_ms: int) -> ReceiveResult:
        ref = view.ref
        target = None
        if view.dead_letter_key is not None:
            target = await self._dead_letters.target(view)
            if target is None:
                ref = view.ref_without_redrive
            elif target.audit:
                self._audit.check()  # spent messages could not be moved, and each try would cost the others a receive
        want, visibility_ms, _, attempt_id = request
        received = await view.engine.receive(ref, want, now_ms + visibility_ms, now_ms, attempt_id)
        if not received.spent or target is None:
            return received
        messages, received_at_ms = received.messages, received.received_at_ms or now_ms
        # A second receive would return messages again that are not hidden, and an attempt id stands for the messages of
        # its first receive.
        only_once = not visibility_ms or bool(attempt_id)
        for _ in range(SPENT_ROUNDS_MAX):
            try:
                await self._dead_letters.move(view, target, received.spent, now_ms)
                missing = want - len(messages)
                if not missing or (messages and only_once):
                    break
                now_ms = self._clock.now_ms()  # the move took time, which must not shorten the visibility timeout
                received = await view.engine.receive(ref, missing, now_ms + visibility_ms, now_ms, attempt_id)
            except (StoreUnavailable, OutcomeUnknown):
                if not messages:
                    raise
                break  # those are leased, and an error would cost each a receive; what is spent is tried again later
            received_at_ms = received_at_ms if messages else received.received_at_ms or now_ms
            messages += received.messages
            if not received.spent:
                break
        return ReceiveResult(
            messages, (), received.next_due_ms, received.limit_reached, received.dropped, received_at_ms
        )
