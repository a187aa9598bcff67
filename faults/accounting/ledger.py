"""What the clients of a kill round did and were told, as they saw it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from faults.service.resources import JUMP_S, VISIBILITY_S

PADDING = "." * 900
PART_EVERY = 3
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_SIZED = re.compile(r"\*(\d{1,2})$")


@dataclass(slots=True, kw_only=True)
class Letter:
    """One message as its sender means it; a sender that got no answer sends it again."""

    text: str
    group: str = ""
    number: int = 0  # within its group
    ids: list[str] = field(default_factory=list)  # acknowledged
    sequence: int = 0
    open: int = 0  # attempts whose outcome nobody knows
    began_ns: int = 0
    acknowledged_ns: int = 0
    echoes: list[tuple[str, int]] = field(default_factory=list)  # id and sequence, told when it was sent once more

    @property
    def body(self) -> str:
        return body_of(self.text)

    @property
    def is_in_part(self) -> bool:
        """Published to the FIFO topic: whether it is for the queue whose subscription has a filter policy, too."""
        return self.number % PART_EVERY == 0


@dataclass(slots=True, kw_only=True)
class Receipt:
    """One message as one receive gave it to a consumer."""

    queue: str
    id: str
    text: str
    group: str
    sequence: int
    take: int  # the number of the receive
    sent_ms: int
    received_ns: int
    asked_ns: int = 0  # when the receive began that got it
    delete_asked_ns: int = 0
    deletes_open: int = 0  # attempts whose outcome nobody knows
    deleted_ns: int = 0  # acknowledged
    notification: str = ""  # its id, where the message is a topic's envelope
    published: int = 0  # the FIFO topic's sequence number, where it is an envelope of one


@dataclass(slots=True)
class Ledger:
    sent: dict[str, dict[str, Letter]] = field(default_factory=dict)  # by queue URL or topic ARN, then text
    receipts: list[Receipt] = field(default_factory=list)
    kills_ns: list[int] = field(default_factory=list)
    back_ns: list[int] = field(default_factory=list)  # when the service was whole again after each
    jumps_ns: list[int] = field(default_factory=list)  # when the clock was moved past every lease
    failures_ns: list[int] = field(default_factory=list)  # when a worker said that the store had failed it
    moves: dict[str, list[int]] = field(default_factory=dict)  # of the cluster: when each dead letter was moved, by id
    ahead_ms: int = 0  # how far the test clock had been moved before
    takes: int = 0
    refusals: list[str] = field(default_factory=list)  # of deletes, although the lease was not over
    receives_open: int = 0  # of FIFO queues, whose outcome nobody knows

    @property
    def falls(self) -> list[tuple[int, int]]:
        """Each kill, and when the service was whole again; the last has no end yet while it lasts."""
        return [(kill, (self.back_ns[number:] or [kill])[0]) for number, kill in enumerate(self.kills_ns)]

    def lease_over(self, from_ns: int, to_ns: int, lease_s: float = VISIBILITY_S) -> bool:
        jumped = any(from_ns < jump < to_ns for jump in self.jumps_ns)
        return jumped or to_ns - from_ns >= lease_s * NS_PER_S

    def wall_ns(self, service_ms: int) -> int:
        """What our clock showed when the service's showed this."""
        wall_ns = (service_ms - self.ahead_ms) * NS_PER_MS
        for jumps, jump in reversed(list(enumerate(self.jumps_ns, 1))):
            if wall_ns - jumps * JUMP_S * NS_PER_S >= jump:
                return wall_ns - jumps * JUMP_S * NS_PER_S
        return wall_ns

    def letter(self, target: str, text: str, group: str = "", number: int = 0) -> Letter:
        letter = Letter(text=text, group=group, number=number)
        self.sent.setdefault(target, {})[text] = letter
        return letter

    def of(self, target: str) -> list[Letter]:
        return list(self.sent.get(target, {}).values())

    def receipts_of(self, queue: str) -> list[Receipt]:
        return [receipt for receipt in self.receipts if receipt.queue == queue]

    def acknowledged(self, target: str) -> int:
        return sum(len(letter.ids) for letter in self.of(target))

    def opened(self, target: str) -> int:
        return sum(letter.open for letter in self.of(target))


def sized(text: str, times: int) -> str:
    """A text whose body is so many times as long as others."""
    return f"{text}*{times}" if times > 1 else text


def body_of(text: str) -> str:
    found = _SIZED.search(text)
    return f"{text} {PADDING * (int(found[1]) if found else 1)}"


def text_of(body: str) -> str:
    """What `body_of` was given, or the whole body when that did not make it."""
    text, _, _ = body.partition(" ")
    return text if body_of(text) == body else body
