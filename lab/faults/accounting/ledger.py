"""The record of a kill round: every call of its clients, and the answers they got."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from lab.faults.service.resources import JUMP_S, VISIBILITY_S

PADDING = "." * 900
PART_EVERY = 3
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

Item = TypeVar("Item")
_SIZED = re.compile(r"\*(\d{1,2})$")


@dataclass(slots=True, kw_only=True)
class SentMessage:
    """One message of a sender, which sends it again until it is acknowledged."""

    text: str
    group: str = ""
    number: int = 0  # within its group
    ids: list[str] = field(default_factory=list)  # message ids that were acknowledged
    sequence: int = 0
    unknown_outcomes: int = 0  # attempts without an answer
    began_ns: int = 0
    acknowledged_ns: int = 0
    repeats: list[tuple[str, int]] = field(default_factory=list)  # (id, sequence) answered to repeats

    @property
    def body(self) -> str:
        return body_of(self.text)

    @property
    def is_in_part(self) -> bool:
        """Whether the filter policy of the FIFO topic's filtered subscription matches it."""
        return self.number % PART_EVERY == 0


@dataclass(slots=True, kw_only=True)
class Receipt:
    """One message in the answer of one receive."""

    queue: str
    id: str
    text: str
    group: str
    sequence: int
    receive_number: int  # equal for all messages of one receive
    sent_ms: int
    received_ns: int
    asked_ns: int = 0  # when its receive began
    delete_asked_ns: int = 0
    unknown_deletes: int = 0  # attempts without an answer
    deleted_ns: int = 0  # acknowledged
    notification: str = ""  # id of the notification, if the message is an envelope
    published: int = 0  # the FIFO topic's sequence number, if the message is an envelope of a FIFO topic


@dataclass(slots=True)
class Ledger:
    sent: dict[str, dict[str, SentMessage]] = field(default_factory=dict)  # by queue URL or topic ARN, then text
    receipts: list[Receipt] = field(default_factory=list)
    kills_ns: list[int] = field(default_factory=list)
    recovered_ns: list[int] = field(default_factory=list)  # when the service had recovered from each kill
    jumps_ns: list[int] = field(default_factory=list)  # when the clock was moved past every lease
    failures_ns: list[int] = field(default_factory=list)  # when a worker logged that the store failed
    moves: dict[str, list[int]] = field(default_factory=dict)  # cluster form: message id → when it was moved to the DLQ
    clock_offset_ms: int = 0  # how far the test clock was ahead before this round
    receive_count: int = 0
    refusals: list[str] = field(default_factory=list)  # refused deletes, although the lease was not over
    unknown_receives: int = 0  # receives of FIFO queues without an answer

    @property
    def outages(self) -> list[tuple[int, int]]:
        """(kill, recovery) in ns for each kill; equal for a kill that the service has not recovered from yet."""
        return [(kill, (self.recovered_ns[number:] or [kill])[0]) for number, kill in enumerate(self.kills_ns)]

    def lease_over(self, from_ns: int, to_ns: int, lease_s: float = VISIBILITY_S) -> bool:
        jumped = any(from_ns < jump < to_ns for jump in self.jumps_ns)
        return jumped or to_ns - from_ns >= lease_s * NS_PER_S

    def wall_ns(self, service_ms: int) -> int:
        """Convert a time of the service, whose test clock jumps, into a time of this process's clock."""
        wall_ns = (service_ms - self.clock_offset_ms) * NS_PER_MS
        for jumps, jump in reversed(list(enumerate(self.jumps_ns, 1))):
            if wall_ns - jumps * JUMP_S * NS_PER_S >= jump:
                return wall_ns - jumps * JUMP_S * NS_PER_S
        return wall_ns

    def add_message(self, target: str, text: str, group: str = "", number: int = 0) -> SentMessage:
        message = SentMessage(text=text, group=group, number=number)
        self.sent.setdefault(target, {})[text] = message
        return message

    def of(self, target: str) -> list[SentMessage]:
        return list(self.sent.get(target, {}).values())

    def receipts_of(self, queue: str) -> list[Receipt]:
        return [receipt for receipt in self.receipts if receipt.queue == queue]

    def acknowledged(self, target: str) -> int:
        return sum(len(message.ids) for message in self.of(target))

    def unknown_outcomes(self, target: str) -> int:
        return sum(message.unknown_outcomes for message in self.of(target))


def grouped(items: Iterable[Item], key: Callable[[Item], str]) -> dict[str, list[Item]]:
    """The items by their key, in their order."""
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def sized(text: str, times: int) -> str:
    """A text whose body is `times` as long as the body of other texts."""
    return f"{text}*{times}" if times > 1 else text


def body_of(text: str) -> str:
    found = _SIZED.search(text)
    return f"{text} {PADDING * (int(found[1]) if found else 1)}"


def text_of(body: str) -> str:
    """The inverse of `body_of`; the whole body if `body_of` did not make it."""
    text, _, _ = body.partition(" ")
    return text if body_of(text) == body else body
