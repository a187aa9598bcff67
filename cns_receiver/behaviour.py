"""How an endpoint of the fault receiver is told to behave: well, or badly in one way, so many times, and then another.

A behaviour comes as JSON, or as the query of the endpoint's own URL, where `tag` may say anything: it makes one URL
differ from another. Unless `on` says so, confirmations are answered well, so that a faulty endpoint can be subscribed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from cns_common.errors import RequestError
from cns_receiver.auth import Credentials, challenge
from cns_receiver.http_server import Answer, Request, answer

HANG_S = 300.0
"""After so long a hanging request's connection is closed, still without an answer."""
DELAY_MS_MAX = 300_000
ANSWER_BYTES_MAX = 1024 * 1024
STEPS_MAX = 100
QUERY_FIELDS_MAX = 32

ConfirmMode = Literal["auto", "manual", "never"]
Switch = Literal["on", "off"]
_HeaderText = Annotated[str, Meta(pattern=r"\A[ -~]*\Z", max_length=2048)]  # nothing that could end a header line


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step. `times` counts requests, also those that `chance` spared."""

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
    auth: Credentials | None = None
    on: Literal["notifications", "confirmations", "all"] = "notifications"
    then: Behaviour | None = None

    def __post_init__(self) -> None:
        if self.hang and self.refuse:
            raise ValueError("an endpoint cannot hang and refuse at once")
        if self.body and self.body_bytes:
            raise ValueError("`body` says what is answered, `body_bytes` only how much: give one of them")
        if self.then is not None and self.times is None:
            raise ValueError("`then` is never reached without `times`")
        if len(self.steps()) > STEPS_MAX:
            raise ValueError(f"more than {STEPS_MAX} steps")

    def steps(self) -> list[Behaviour]:
        """This one and those that follow, as far as they are allowed to."""
        found, step = [self], self.then
        while step is not None and len(found) <= STEPS_MAX:
            found.append(step)
            step = step.then
        return found


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one endpoint does otherwise than the process does by default."""

    confirm: ConfirmMode | None = None
    verify: Switch | None = None

    def over(self, other: Settings) -> Settings:
        return Settings(confirm=self.confirm or other.confirm, verify=self.verify or other.verify)


class Plan(NamedTuple):
    """What one request gets, and when; without an answer the connection is closed."""

    answer: Answer | None
    delay_s: float = 0.0

    @property
    def status(self) -> int:
        return self.answer.status if self.answer else 0


WELL = Plan(answer(200))


class Script:
    """Where in a behaviour and those after it an endpoint has come."""

    def __init__(self, behaviour: Behaviour, random: Callable[[], float]) -> None:
        self._random = random
        self._enter(behaviour)

    @property
    def now(self) -> Behaviour | None:
        """What holds for the next request, with the times that are left."""
        return None if self._step is None else msgspec.structs.replace(self._step, times=self._left)

    def next(self, *, confirming: bool) -> Behaviour | None:
        """How this request is to be treated badly, if it is."""
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


def plan_of(behaviour: Behaviour, request: Request, nonce: str) -> Plan:
    if behaviour.hang:
        return Plan(None, HANG_S)
    delay_s = behaviour.delay_ms / 1000
    if behaviour.refuse:
        return Plan(None, delay_s)
    if behaviour.auth is not None and (wanted := challenge(behaviour.auth, request, nonce)):
        return Plan(answer(401, headers=[("www-authenticate", wanted)]), delay_s)
    headers = [("location", behaviour.redirect), ("retry-after", behaviour.retry_after)]
    body = behaviour.body.encode() or b"x" * behaviour.body_bytes
    status = behaviour.status or (302 if behaviour.redirect else 200)
    kind = "text/plain; charset=utf-8" if body else ""
    return Plan(answer(status, body, kind, [(name, value) for name, value in headers if value]), delay_s)


def behaviour_of_json(text: bytes) -> Behaviour:
    try:
        return msgspec.json.decode(text, type=Behaviour)
    except (ValueError, RecursionError) as error:
        raise RequestError("InvalidBehaviour", str(error)) from error


def settings_of_json(text: bytes) -> Settings:
    try:
        return msgspec.json.decode(text, type=Settings)
    except (ValueError, RecursionError) as error:
        raise RequestError("InvalidSettings", str(error)) from error


def of_query(query: str) -> tuple[Behaviour | None, Settings]:
    """What an endpoint's URL asks for; no behaviour when it names none."""
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict"))
        given.pop("tag", None)
        settings = {name: given.pop(name) for name in Settings.__struct_fields__ if name in given}
        behaviour = msgspec.convert(given, Behaviour, strict=False) if given else None
        return behaviour, msgspec.convert(settings, Settings)
    except ValueError as error:
        raise RequestError("InvalidBehaviour", str(error)) from error
