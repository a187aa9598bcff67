"""One send as admission control sees it: waiting, started, overdue, ended, or deferred."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cns.delivery.observers.contract import Deferral
from cns.endpoints.outcome import Outcome
from cns_workers.delivery.traffic.endpoint_state import EndpointState

AdmittedAttempt = asyncio.Future[Outcome] | asyncio.Future[Outcome | Deferral]
StartSend = Callable[[], asyncio.Future[Outcome]]


class Send:
    __slots__ = (
        "attempt",
        "endpoint",
        "is_overdue",
        "is_probe",
        "key",
        "message_id",
        "on_probation",
        "start",
        "started_s",
        "topic",
        "wait",
    )

    def __init__(self, key: str, endpoint: EndpointState, message_id: str, start: StartSend, topic: str = "") -> None:
        self.key = key
        self.endpoint = endpoint
        self.message_id = message_id
        self.start = start
        self.topic = topic
        self.started_s = 0.0
        self.attempt: asyncio.Future[Outcome] | None = None
        self.wait: asyncio.Future[Outcome | Deferral] | None = None
        self.is_overdue = False
        self.is_probe = False
        self.on_probation = False
        """Whether it takes from the room for endpoints that may hang."""

    @property
    def has_ended(self) -> bool:
        return self.attempt is not None and self.attempt.done()

    @property
    def waits_no_more(self) -> bool:
        """It was started, deferred or cancelled."""
        return self.attempt is not None or (self.wait is not None and self.wait.done())


def copy_result(attempt: asyncio.Future[Outcome], wait: asyncio.Future[Outcome | Deferral]) -> None:
    """Pass the result of an attempt on to the future that the caller got while the send waited."""
    if wait.done():
        return
    if attempt.cancelled():
        wait.cancel()
    elif (error := attempt.exception()) is not None:
        wait.set_exception(error)
    else:
        wait.set_result(attempt.result())
