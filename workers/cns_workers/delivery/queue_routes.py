"""Sends messages to queues in the order in which their slots were reserved.

A route is one queue and one topic. The bodies of its messages are made concurrently. The messages go to the queue port
in the order of their slots, one request at a time; those that become ready meanwhile go together in the next request.
So the queue holds them in that order, unless a request fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from cns.queue_port.contract import DELIVER_ENTRIES_MAX, QueueMessage, QueuePort, Refusal, size_of
from cns_common.errors import OutcomeUnknown

DELIVER_BYTES_MAX = 512 * 1024
"""The size of bodies and attributes in one request. A larger message goes alone."""

Answer = str | Refusal
"""The message's id in the queue, or why the queue refused it."""


class SendRoutes:
    def __init__(self, port: QueuePort) -> None:
        self._port = port
        self._routes: dict[tuple[str, str], _Route] = {}

    def __len__(self) -> int:
        """Count the routes in use."""
        return len(self._routes)

    def reserve(self, queue_arn: str, topic_arn: str) -> RouteSlot:
        """Reserve the next slot of a route. It is a context manager."""
        key = (queue_arn, topic_arn)
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = _Route(self._port, queue_arn, topic_arn, partial(self._routes.pop, key))
        slot = RouteSlot(route)
        route.slots.append(slot)
        return slot


class RouteSlot:
    """If its block ends without a send, the slots behind it proceed."""

    __slots__ = ("_route", "answer", "message", "waiting")

    def __init__(self, route: _Route) -> None:
        self._route = route
        self.waiting = True  # it is in `_Route.slots`
        self.message: QueueMessage | None = None
        self.answer: asyncio.Future[Answer] | None = None

    def __enter__(self) -> RouteSlot:
        return self

    def __exit__(self, *_: object) -> None:
        if self.waiting:
            self._route.leave(self)

    async def send(self, message: QueueMessage) -> Answer:
        """Raises what `QueuePort.deliver` raises."""
        if self._route.is_next(self):
            return await self._route.send_first(message)
        self.message = message
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer


class _Route:
    __slots__ = ("_forget", "_port", "_queue_arn", "_request", "_sending", "_topic_arn", "slots")

    def __init__(self, port: QueuePort, queue_arn: str, topic_arn: str, forget: Callable[[], object]) -> None:
        """`forget` is called when nothing waits or is in flight."""
        self._port = port
        self._queue_arn = queue_arn
        self._topic_arn = topic_arn
        self._forget = forget
        self._sending = False
        self._request: asyncio.Future[list[Answer]] | None = None
        self.slots: deque[RouteSlot] = deque()

    def is_next(self, slot: RouteSlot) -> bool:
        return not self._sending and self.slots[0] is slot

    async def send_first(self, message: QueueMessage) -> Answer:
        """Send in the caller's task: most routes have one message at a time, which needs no task of its own."""
        self._take()
        self._sending = True
        try:
            answers = await self._port.deliver(self._queue_arn, [message], self._topic_arn)
        finally:
            self._send_ready()
        if len(answers) != 1:
            raise OutcomeUnknown(f"{len(answers)} answers to one message")
        return answers[0]

    def leave(self, slot: RouteSlot) -> None:
        self.slots.remove(slot)
        if not self._sending:
            self._send_ready()

    def _take(self) -> RouteSlot:
        slot = self.slots.popleft()
        slot.waiting = False
        return slot

    def _send_ready(self) -> None:
        """Send the slots that are ready, up to the first that is not."""
        ready: list[RouteSlot] = []
        messages: list[QueueMessage] = []
        size_bytes = 0
        while self.slots and (message := self.slots[0].message) is not None and len(ready) < DELIVER_ENTRIES_MAX:
            size_bytes += size_of(message.body, message.attributes)
            if ready and size_bytes > DELIVER_BYTES_MAX:
                break
            messages.append(message)
            ready.append(self._take())
        self._sending = bool(ready)
        if ready:
            self._request = asyncio.ensure_future(self._port.deliver(self._queue_arn, messages, self._topic_arn))
            self._request.add_done_callback(partial(self._answer, ready))
        elif not self.slots:
            self._forget()

    def _answer(self, sent: list[RouteSlot], request: asyncio.Future[list[Answer]]) -> None:
        error = None if request.cancelled() else request.exception()
        if error is None and not request.cancelled() and len(request.result()) != len(sent):
            error = OutcomeUnknown(f"{len(request.result())} answers to {len(sent)} messages")
        for number, slot in enumerate(sent):
            if slot.answer is None or slot.answer.done():  # its sender was cancelled
                continue
            if request.cancelled():
                slot.answer.cancel()
            elif error is not None:
                slot.answer.set_exception(error)
            else:
                slot.answer.set_result(request.result()[number])
        self._send_ready()
