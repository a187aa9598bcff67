"""State of one AWS call on a connection, and lean versions of what uvicorn keeps for each connection."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl


class Exchange:
    """One AWS call in progress. uvicorn stores it where it stores its own request cycles and reads these attributes.

    It does not hold the request: a long poll may wait, and must not keep the body in memory meanwhile.
    """

    __slots__ = ("_on_gone", "bodiless", "disconnected", "keep_alive", "response_complete", "until_s")

    def __init__(self, keep_alive: bool, bodiless: bool) -> None:
        """`bodiless`: the response has a head only (HEAD)."""
        self.until_s = math.inf
        """The deadline of the call, by the loop's clock."""
        self.keep_alive = keep_alive
        self.bodiless = bodiless
        self.response_complete = False
        self.disconnected = False
        self._on_gone: Callable[[], None] | None = None

    @property
    def message_event(self) -> Exchange:
        """uvicorn calls `cycle.message_event.set()` when the connection is lost."""
        return self

    def set(self) -> None:
        if self._on_gone is not None:
            self._on_gone()

    def extend(self, seconds: float) -> None:
        """Move the deadline: the call is a long poll."""
        self.until_s += seconds

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the client disconnects; at once, if it already did."""
        self._on_gone = callback
        if self.disconnected:
            callback()


class RequestQueue(list[tuple[Any, Any]]):
    """Pipelined requests, newest first. It is almost always empty, and uvicorn's empty deque takes 760 bytes."""

    __slots__ = ()

    def appendleft(self, item: tuple[Any, Any]) -> None:
        self.insert(0, item)


class LeanFlowControl(FlowControl):
    """uvicorn's flow control, which creates its event (and the event's deque) only when a client reads too slowly."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = False
        self.write_paused = False

    def pause_writing(self) -> None:
        self._is_writable_event = asyncio.Event()
        super().pause_writing()

    def resume_reading(self) -> None:
        """Do nothing while the client leaves responses unread: more requests would add to them."""
        if not self.write_paused:
            super().resume_reading()
