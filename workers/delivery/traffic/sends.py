"""One send as the traffic sees it: wanted, begun, overdue, ended, or put aside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from cns.endpoints.outcome import Outcome
from workers.delivery.traffic.endpoint_state import Endpoint


class Aside(StrEnum):
    """Why a send was not begun: not a failure, and no attempt."""

    OPEN = "breaker_open"
    BUSY = "endpoint_busy"
    THROTTLED = "throttled"


Begin = Callable[[], asyncio.Future[Outcome]]
Attempt = asyncio.Future[Outcome] | asyncio.Future[Outcome | Aside]


class Send:
    __slots__ = ("attempt", "began_s", "begin", "counted", "endpoint", "key", "late", "message_id", "probe", "wait")

    def __init__(self, key: str, endpoint: Endpoint, message_id: str, begin: Begin) -> None:
        self.key = key
        self.endpoint = endpoint
        self.message_id = message_id
        self.begin = begin
        self.began_s = 0.0
        self.attempt: asyncio.Future[Outcome] | None = None
        self.wait: asyncio.Future[Outcome | Aside] | None = None
        self.late = False
        self.probe = False
        self.counted = False  # among the unproven


def has_ended(send: Send) -> bool:
    return send.attempt is not None and send.attempt.done()


def is_done_with(send: Send) -> bool:
    """It was begun, or put aside, or nobody wants it any more."""
    return send.attempt is not None or (send.wait is not None and send.wait.done())


def pass_on(wait: asyncio.Future[Outcome | Aside], done: asyncio.Future[Outcome]) -> None:
    if wait.done():
        return
    if done.cancelled():
        wait.cancel()
    elif (error := done.exception()) is not None:
        wait.set_exception(error)
    else:
        wait.set_result(done.result())
