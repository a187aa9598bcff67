"""The behaviours of an endpoint: how it answers deliveries, how many times, and what follows.

A behaviour is given as JSON, or as the query of the endpoint's URL, where a `tag` of any value makes URLs differ.
Confirmations succeed unless `on` includes them, so that a failing endpoint can be subscribed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from cns_common.errors import UNREADABLE, RequestError
from cns_receiver.auth import ReceiverCredentials, challenge
from cns_receiver.http_server import IncomingRequest, ReceiverAnswer, answer

HANG_S = 300.0
"""The longest time that a request hangs; then its connection is closed without an answer."""
DELAY_MS_MAX = 300_000
ANSWER_BYTES_MAX = 1024 * 1024
STEPS_MAX = 100
QUERY_FIELDS_MAX = 32

ConfirmMode = Literal["auto", "manual", "never"]
Switch = Literal["on", "off"]
_HeaderText = Annotated[str, Meta(pattern=r"\A[ -~]*\Z", max_length=2048)]  # no characters that end a header line


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A behaviour, and the next one in `then`. `times` counts requests, also those that `chance` let succeed."""

    status: Annotated[int, Meta(ge=200, le=599)] | None = None
    delay_ms: Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)] = 0
    hang: bool = False
    refuse: bool = False
    redirect: _HeaderText = ""
    retry_after: _HeaderText = ""
    body: Annotated[str, Meta(max_length=ANSWER_BYTES_MAX)] = ""
    body_bytes: Annotated[int, Meta(ge=0, le=ANSWER_BYTES_MAX)] = 0
    chance: Annotated[float, Meta(ge=0, le=1)] = 1.0
    times: Annotated[int, Meta(ge=1)] | None = None
    auth: ReceiverCredentials | None = None
    on: Literal["notifications", "confirmations", "all"] = "notifications"
    then: Behaviour | None = None

    def __post_init__(self) -> None:
        if self.hang and self.refuse:
            raise ValueError("an endpoint cannot hang and refuse at once")
        if self.body and self.body_bytes:
            raise ValueError("`body` is the answer, `body_bytes` only its length: give one of them")
        if self.then is not None and self.times is None:
            raise ValueError("`then` is never reached without `times`")
        if len(self.steps()) > STEPS_MAX:
            raise ValueError(f"more than {STEPS_MAX} steps")

    def steps(self) -> list[Behaviour]:
        """Return this behaviour and those that follow it, at most `STEPS_MAX + 1`."""
        found, step = [self], self.then
        while step is not None and len(found) <= STEPS_MAX:
            found.append(step)
            step = step.then
        return found


class ReceiverSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one endpoint that override the defaults of the process."""

    confirm: ConfirmMode | None = None
    verify: Switch | None = None

    def over(self, other: ReceiverSettings) -> ReceiverSettings:
        """Fill unset members from `other`."""
        return ReceiverSettings(confirm=self.confirm or other.confirm, verify=self.verify or other.verify)


class PlannedAnswer(NamedTuple):
    """The answer to one request and its delay; None closes the connection."""

    answer: ReceiverAnswer | None
    delay_s: float = 0.0

    @property
    def status(self) -> int:
        return self.answer.status if self.answer else 0


SUCCESS = PlannedAnswer(answer(200))


class BehaviourSequence:
    """The position of an endpoint in a behaviour and those that follow it."""

    def __init__(self, behaviour: Behaviour, random: Callable[[], float]) -> None:
        self._random = random
        self._enter(behaviour)

    @property
    def now(self) -> Behaviour | None:
        """The behaviour for the next request, with the remaining `times`."""
        return None if self._step is None else msgspec.structs.replace(self._step, times=self._left)

    def next(self, *, confirming: bool) -> Behaviour | None:
        """Count a request; return the behaviour for it, or None if it should succeed."""
        step = self._step
        if step is None or step.on == ("notifications" if confirming else "confirmations"):
            return None
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._enter(step.then)
        return step if step.chance >= 1 or self._random() < step.chance else None

    def _enter(self, step: Behaviour | None) -> None:
        self._step = step
        self._left = None if step is None else step.times


def plan_answer(behaviour: Behaviour, request: IncomingRequest, nonce: str) -> PlannedAnswer:
    if behaviour.hang:
        return PlannedAnswer(None, HANG_S)
    delay_s = behaviour.delay_ms / 1000
    if behaviour.refuse:
        return PlannedAnswer(None, delay_s)
    if behaviour.auth is not None and (header := challenge(behaviour.auth, request, nonce)):
        return PlannedAnswer(answer(401, headers=[("www-authenticate", header)]), delay_s)
    headers = [("location", behaviour.redirect), ("retry-after", behaviour.retry_after)]
    body = behaviour.body.encode() or b"x" * behaviour.body_bytes
    status = behaviour.status or (302 if behaviour.redirect else 200)
    kind = "text/plain; charset=utf-8" if body else ""
    return PlannedAnswer(answer(status, body, kind, [(name, value) for name, value in headers if value]), delay_s)


def parse_behaviour(text: bytes) -> Behaviour:
    try:
        return msgspec.json.decode(text, type=Behaviour)
    except UNREADABLE as error:
        raise RequestError("InvalidBehaviour", str(error)) from error


def parse_settings(text: bytes) -> ReceiverSettings:
    try:
        return msgspec.json.decode(text, type=ReceiverSettings)
    except UNREADABLE as error:
        raise RequestError("InvalidSettings", str(error)) from error


def parse_query(query: str) -> tuple[Behaviour | None, ReceiverSettings]:
    """Parse the query of an endpoint's URL; the behaviour is None if it names none."""
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict"))
        given.pop("tag", None)
        settings = {name: given.pop(name) for name in ReceiverSettings.__struct_fields__ if name in given}
        behaviour = msgspec.convert(given, Behaviour, strict=False) if given else None
        return behaviour, msgspec.convert(settings, ReceiverSettings)
    except ValueError as error:
        raise RequestError("InvalidBehaviour", str(error)) from error
