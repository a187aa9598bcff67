"""What one endpoint of the fault receiver has received, and what it was told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from cns_receiver.behaviour import Script, Settings
from cns_receiver.http_server import Request
from cns_receiver.id_counts import IdRoom, Tally
from cns_receiver.record import Record, Verdict, identify

KEPT_BYTES_MAX = 256 * 1024 * 1024
RECORD_BYTES = 500
HEADER_BYTES = 150
"""What a record and each of its headers take besides their text, roughly."""
CONFIRMATIONS_KEPT = 100


class Room:
    """What is kept, and the bounds that all endpoints share."""

    def __init__(self, *, records_max: int, body_bytes_kept: int) -> None:
        self.records_max = records_max  # of one endpoint
        self.body_bytes_kept = body_bytes_kept  # of one record
        self.used_bytes = 0
        self.ids = IdRoom()


class Confirmation(msgspec.Struct):
    """A subscription that asked to be confirmed."""

    topic_arn: str
    subscribe_url: str
    state: Literal["waiting", "visiting", "confirmed", "failed", "refused"] = "waiting"
    reason: str = ""
    subscription_arn: str = ""


class Mailbox:
    def __init__(self, name: str, room: Room) -> None:
        self.name = name
        self.script: Script | None = None
        self.settings = Settings()
        self.records: deque[Record] = deque()
        self.confirmations: deque[Confirmation] = deque(maxlen=CONFIRMATIONS_KEPT)
        self.tally = Tally(room.ids)
        self.received = 0
        self.accepted = 0
        self.unidentified = 0
        self.confirming = 0
        self.confirmed = 0
        self.confirmations_failed = 0
        self.verdicts = dict.fromkeys(Verdict, 0)
        self.first_ns = 0
        self.last_ns = 0
        self._asked = Tally(room.ids)
        self._room = room
        self._watches: dict[asyncio.Future[None], Mapping[str, int]] = {}

    # -- what happens -------------------------------------------------------------------------------------------------

    def record(self, arrived_ns: int, request: Request) -> Record:
        identity = identify(request)
        body = request.body
        record = Record(
            arrived_ns, identity, 1, request.target, request.headers, body[: self._room.body_bytes_kept], len(body)
        )
        tally = self._count(record)
        if identity.message_id:
            record.attempt = tally.arrive(identity.message_id, identity.subscription)
        else:
            self.unidentified += 1
        self._keep(record)
        self.changed()
        return record

    def accept(self, record: Record) -> None:
        """The endpoint has answered 2xx."""
        identity = record.identity
        if record.confirming:
            self._asked.accept(identity.message_id, identity.subscription)
            return
        self.accepted += 1
        self.tally.accept(identity.message_id, identity.subscription)
        self.changed()

    def judge(self, record: Record, verdict: Verdict) -> None:
        record.verdict = verdict
        if not record.confirming:
            self.verdicts[verdict] += 1
        self.changed()

    def restore(self, arrived_ns: int, status: int, message_id: bytes, subscription: bytes) -> None:
        """Count a delivery of before a restart."""
        self._count_received(arrived_ns)
        if message_id:
            self.tally.arrive(message_id, subscription)
        else:
            self.unidentified += 1
        if 200 <= status < 300:
            self.accepted += 1
            self.tally.accept(message_id, subscription)

    def clear(self) -> None:
        """Give back the room. The mailbox is not to be used again."""
        while self.records:
            self._drop()
        self.tally.clear()
        self._asked.clear()

    # -- what is known ------------------------------------------------------------------------------------------------

    def summary(self, messages_max: int) -> dict[str, object]:
        newest = list(self.records)[-messages_max:] if messages_max else []
        behaviour = self.script.now if self.script else None
        return {
            "id": self.name,
            **{name: count(self) for name, count in _ARRIVALS.items()},
            "forgotten": self.tally.forgotten,
            "signature": {name: count(self) for name, count in _VERDICTS.items()},
            "first_ms": self.first_ns // 1_000_000 or None,
            "last_ms": self.last_ns // 1_000_000 or None,
            "behaviour": behaviour,
            "confirmation_requests": list(self.confirmations),
            "messages": [record.shown() for record in newest],
        }

    async def wait(self, wanted: Mapping[str, int], timeout_s: float) -> None:
        """Until every counter named has come to its number, or the time is over."""
        if self._has(wanted):
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watches[reached] = wanted
        try:
            await asyncio.wait_for(reached, timeout_s)
        except TimeoutError:
            pass
        finally:
            self._watches.pop(reached, None)

    def changed(self) -> None:
        """Tell those who wait."""
        if self._watches:
            for reached, wanted in self._watches.items():
                if not reached.done() and self._has(wanted):
                    reached.set_result(None)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _has(self, wanted: Mapping[str, int]) -> bool:
        return all(COUNTERS[name](self) >= count for name, count in wanted.items())

    def _count(self, record: Record) -> Tally:
        if record.confirming:
            self.confirming += 1
            return self._asked
        self._count_received(record.arrived_ns)
        return self.tally

    def _count_received(self, arrived_ns: int) -> None:
        self.received += 1
        self.first_ns = self.first_ns or arrived_ns
        self.last_ns = arrived_ns

    def _keep(self, record: Record) -> None:
        """Over the bound of all endpoints it is this one that drops its oldest, but never its newest."""
        room = self._room
        if len(self.records) == room.records_max:
            self._drop()
        self.records.append(record)
        room.used_bytes += _bytes_of(record)
        while room.used_bytes > KEPT_BYTES_MAX and len(self.records) > 1:
            self._drop()

    def _drop(self) -> None:
        self._room.used_bytes -= _bytes_of(self.records.popleft())


def _bytes_of(record: Record) -> int:
    headers = record.headers
    text_bytes = len(record.body) + sum(map(len, headers)) + sum(map(len, headers.values()))
    return RECORD_BYTES + HEADER_BYTES * len(headers) + text_bytes


_ARRIVALS: Mapping[str, Callable[[Mailbox], int]] = MappingProxyType(
    {
        "received": lambda mailbox: mailbox.received,
        "accepted": lambda mailbox: mailbox.accepted,
        "distinct_messages": lambda mailbox: mailbox.tally.distinct_messages,
        "duplicates": lambda mailbox: mailbox.tally.duplicates,
        "retries": lambda mailbox: mailbox.tally.retries,
        "unidentified": lambda mailbox: mailbox.unidentified,
        "confirmations": lambda mailbox: mailbox.confirming,
        "confirmed": lambda mailbox: mailbox.confirmed,
        "confirmations_failed": lambda mailbox: mailbox.confirmations_failed,
    }
)
_VERDICTS: Mapping[str, Callable[[Mailbox], int]] = MappingProxyType(
    {
        "good": lambda mailbox: mailbox.verdicts[Verdict.GOOD],
        "bad": lambda mailbox: mailbox.verdicts[Verdict.BAD],
        "unsigned": lambda mailbox: mailbox.verdicts[Verdict.UNSIGNED],
        "unchecked": lambda mailbox: mailbox.verdicts[Verdict.UNCHECKED],
    }
)
COUNTERS: Mapping[str, Callable[[Mailbox], int]] = MappingProxyType({**_ARRIVALS, **_VERDICTS})
"""What a client can wait for. Only the three of that name count confirmations, the others what is notified."""
