"""Sends to queues in the order in which they begin.

A route is one queue and one topic. The bodies of a route's messages are made side by side; the messages go to the queue
port in the order of their places, one request at a time, and those that become ready meanwhile go together in the next
request. So the queue holds them in that order, unless a request fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from cns.queue_port.contract import DELIVER_ENTRIES_MAX, QueueMessage, QueuePort, Refusal, size_of
from cns_common.errors import OutcomeUnknown

DELIVER_BYTES_MAX = 512 * 1024
"""Bodies and attributes in one request. A larger message goes alone."""

Answer = str | Refusal
"""The id that a message has in the queue, or why the queue refused it."""


class QueueRoutes:
    def __init__(self, port: QueuePort) -> None:
        self._port = port
        self._routes: dict[tuple[str, str], _Route] = {}

    def __len__(self) -> int:
        """Routes in use."""
        return len(self._routes)

    def place(self, queue_arn: str, topic_arn: str) -> Place:
        """The next place on a route, as a context manager."""
        key = (queue_arn, topic_arn)
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = _Route(self._port, queue_arn, topic_arn, partial(self._routes.pop, key))
        place = Place(route)
        route.places.append(place)
        return place


class Place:
    """A block that ends without a send frees the place for those behind it."""

    __slots__ = ("_route", "answer", "message", "waiting")

    def __init__(self, route: _Route) -> None:
        self._route = route
        self.waiting = True  # in `_Route.places`
        self.message: QueueMessage | None = None
        self.answer: asyncio.Future[Answer] | None = None

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        if self.waiting:
            self._route.leave(self)

    async def send(self, message: QueueMessage) -> Answer:
        """Raises what `QueuePort.deliver` raises."""
        if self._route.is_free_for(self):
            return await self._route.send_first(message)
        self.message = message
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer


class _Route:
    __slots__ = ("_forget", "_port", "_queue_arn", "_request", "_sending", "_topic_arn", "places")

    def __init__(self, port: QueuePort, queue_arn: str, topic_arn: str, forget: Callable[[], object]) -> None:
        """`forget` is called when nothing waits or is under way."""
        self._port = port
        self._queue_arn = queue_arn
        self._topic_arn = topic_arn
        self._forget = forget
        self._sending = False
        self._request: asyncio.Future[list[Answer]] | None = None
        self.places: deque[Place] = deque()

    def is_free_for(self, place: Place) -> bool:
        return not self._sending and self.places[0] is place

    async def send_first(self, message: QueueMessage) -> Answer:
        """By the sender itself: most routes have one message at a time, which needs no task of its own."""
        self._take()
        self._sending = True
        try:
            answers = await self._port.deliver(self._queue_arn, [message], self._topic_arn)
        finally:
            self._go_on()
        if len(answers) != 1:
            raise OutcomeUnknown(f"{len(answers)} answers to one message")
        return answers[0]

    def leave(self, place: Place) -> None:
        self.places.remove(place)
        if not self._sending:
            self._go_on()

    def _take(self) -> Place:
        place = self.places.popleft()
        place.waiting = False
        return place

    def _go_on(self) -> None:
        """Send those that are ready, up to the first that is not."""
        ready: list[Place] = []
        messages: list[QueueMessage] = []
        size_bytes = 0
        while self.places and (message := self.places[0].message) is not None and len(ready) < DELIVER_ENTRIES_MAX:
            size_bytes += size_of(message.body, message.attributes)
            if ready and size_bytes > DELIVER_BYTES_MAX:
                break
            messages.append(message)
            ready.append(self._take())
        self._sending = bool(ready)
        if ready:
            self._request = asyncio.ensure_future(self._port.deliver(self._queue_arn, messages, self._topic_arn))
            self._request.add_done_callback(partial(self._answer, ready))
        elif not self.places:
            self._forget()

    def _answer(self, sent: list[Place], request: asyncio.Future[list[Answer]]) -> None:
        error = None if request.cancelled() else request.exception()
        if error is None and not request.cancelled() and len(request.result()) != len(sent):
            error = OutcomeUnknown(f"{len(request.result())} answers to {len(sent)} messages")
        for number, place in enumerate(sent):
            if place.answer is None or place.answer.done():  # its sender was cancelled
                continue
            if request.cancelled():
                place.answer.cancel()
            elif error is not None:
                place.answer.set_exception(error)
            else:
                place.answer.set_result(request.result()[number])
        self._go_on()
