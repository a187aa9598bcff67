"""One endpoint: the deliveries it received, its counters, and its configured behaviour."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from cns_receiver.behaviour import BehaviourSequence, ReceiverSettings
from cns_receiver.http_server import IncomingRequest
from cns_receiver.id_counts import IdCapacity, IdCounts
from cns_receiver.record import Record, SignatureStatus, identify

RECORDS_BYTES_MAX = 256 * 1024 * 1024
RECORD_BYTES = 500
HEADER_BYTES = 150
"""Approximate memory of a record and of each header, besides their text."""
HEADERS_KEPT_BYTES = 12 * 1024
"""The limit of one delivery. One of each of 10,000 endpoints fits into RECORDS_BYTES_MAX; later headers are dropped."""
CONFIRMATIONS_KEPT = 100


class Capacity:
    """Limits of the records that are kept, shared by all endpoints."""

    def __init__(self, *, records_max: int, body_bytes_kept: int) -> None:
        self.records_max = records_max  # of one endpoint
        self.body_bytes_kept = body_bytes_kept  # of one record
        self.used_bytes = 0
        self.ids = IdCapacity()


class ReceivedConfirmation(msgspec.Struct):
    """A subscription for which a SubscriptionConfirmation arrived."""

    topic_arn: str
    subscribe_url: str
    state: Literal["waiting", "visiting", "confirmed", "failed", "refused"] = "waiting"
    reason: str = ""
    subscription_arn: str = ""


class Endpoint:
    def __init__(self, name: str, capacity: Capacity) -> None:
        self.name = name
        self.sequence: BehaviourSequence | None = None
        self.settings = ReceiverSettings()
        self.records: deque[Record] = deque()
        self.confirmations: deque[ReceivedConfirmation] = deque(maxlen=CONFIRMATIONS_KEPT)
        self.id_counts = IdCounts(capacity.ids)
        self.received = 0
        self.accepted = 0
        self.unidentified = 0
        self.confirming = 0
        self.confirmed = 0
        self.confirmations_failed = 0
        self.signatures = dict.fromkeys(SignatureStatus, 0)
        self.first_ns = 0
        self.last_ns = 0
        self._confirmation_ids = IdCounts(capacity.ids)
        self._capacity = capacity
        self._watches: dict[asyncio.Future[None], Mapping[str, int]] = {}

    # -- deliveries --------------------------------------------------------------------------------------------------

    def record(self, arrived_ns: int, request: IncomingRequest) -> Record:
        identity = identify(request)
        body = request.body
        headers, kept = _kept(request.headers), body[: self._capacity.body_bytes_kept]
        record = Record(arrived_ns, identity, 1, request.target, headers, kept, len(body))
        id_counts = self._count(record)
        if identity.message_id:
            record.attempt = id_counts.arrive(identity.message_id, identity.subscription)
        else:
            self.unidentified += 1
        self._keep(record)
        self.changed()
        return record

    def accept(self, record: Record) -> None:
        """Count a 2xx answer."""
        identity = record.identity
        if record.confirming:
            self._confirmation_ids.accept(identity.message_id, identity.subscription)
            return
        self.accepted += 1
        self.id_counts.accept(identity.message_id, identity.subscription)
        self.changed()

    def set_signature(self, record: Record, signature: SignatureStatus) -> None:
        record.signature = signature
        if not record.confirming:
            self.signatures[signature] += 1
        self.changed()

    def restore(self, arrived_ns: int, status: int, message_id: bytes, subscription: bytes) -> None:
        """Count a delivery from before a restart."""
        self._count_received(arrived_ns)
        if message_id:
            self.id_counts.arrive(message_id, subscription)
        else:
            self.unidentified += 1
        if 200 <= status < 300:
            self.accepted += 1
            self.id_counts.accept(message_id, subscription)

    def clear(self) -> None:
        """Release the capacity. Do not use the endpoint afterwards."""
        while self.records:
            self._drop()
        self.id_counts.clear()
        self._confirmation_ids.clear()

    # -- queries ------------------------------------------------------------------------------------------------------

    def summary(self, messages_max: int) -> dict[str, object]:
        newest = list(self.records)[-messages_max:] if messages_max else []
        behaviour = self.sequence.now if self.sequence else None
        return {
            "id": self.name,
            **{name: count(self) for name, count in _ARRIVALS.items()},
            "forgotten": self.id_counts.forgotten,
            "signature": {name: count(self) for name, count in _SIGNATURES.items()},
            "first_ms": self.first_ns // 1_000_000 or None,
            "last_ms": self.last_ns // 1_000_000 or None,
            "behaviour": behaviour,
            "confirmation_requests": list(self.confirmations),
            "messages": [record.as_json() for record in newest],
        }

    async def wait(self, minimums: Mapping[str, int], timeout_s: float) -> None:
        """Wait until every named counter has reached its number, or the timeout passes."""
        if self._reached(minimums):
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watches[reached] = minimums
        try:
            await asyncio.wait_for(reached, timeout_s)
        except TimeoutError:
            pass
        finally:
            self._watches.pop(reached, None)

    def changed(self) -> None:
        """Wake the callers of `wait` whose counters have reached their numbers."""
        if self._watches:
            for reached, minimums in self._watches.items():
                if not reached.done() and self._reached(minimums):
                    reached.set_result(None)

    # -- internal -----------------------------------------------------------------------------------------------------

    def _reached(self, minimums: Mapping[str, int]) -> bool:
        return all(COUNTERS[name](self) >= count for name, count in minimums.items())

    def _count(self, record: Record) -> IdCounts:
        if record.confirming:
            self.confirming += 1
            return self._confirmation_ids
        self._count_received(record.arrived_ns)
        return self.id_counts

    def _count_received(self, arrived_ns: int) -> None:
        self.received += 1
        self.first_ns = self.first_ns or arrived_ns
        self.last_ns = arrived_ns

    def _keep(self, record: Record) -> None:
        """Keep the record. Over the shared limit, drop this endpoint's oldest records, but never the newest."""
        capacity = self._capacity
        if len(self.records) == capacity.records_max:
            self._drop()
        self.records.append(record)
        capacity.used_bytes += _bytes_of(record)
        while capacity.used_bytes > RECORDS_BYTES_MAX and len(self.records) > 1:
            self._drop()

    def _drop(self) -> None:
        self._capacity.used_bytes -= _bytes_of(self.records.popleft())


def _bytes_of(record: Record) -> int:
    return RECORD_BYTES + len(record.body) + len(record.target) + _header_bytes(record.headers)


def _header_bytes(headers: Mapping[bytes, bytes]) -> int:
    return HEADER_BYTES * len(headers) + sum(map(len, headers)) + sum(map(len, headers.values()))


def _kept(headers: dict[bytes, bytes]) -> dict[bytes, bytes]:
    if _header_bytes(headers) <= HEADERS_KEPT_BYTES:
        return headers
    kept, left = {}, HEADERS_KEPT_BYTES
    for name, value in headers.items():
        left -= HEADER_BYTES + len(name) + len(value)
        if left < 0:
            break
        kept[name] = value
    return kept


_ARRIVALS: Mapping[str, Callable[[Endpoint], int]] = MappingProxyType(
    {
        "received": lambda endpoint: endpoint.received,
        "accepted": lambda endpoint: endpoint.accepted,
        "distinct_messages": lambda endpoint: endpoint.id_counts.distinct_messages,
        "duplicates": lambda endpoint: endpoint.id_counts.duplicates,
        "retries": lambda endpoint: endpoint.id_counts.retries,
        "unidentified": lambda endpoint: endpoint.unidentified,
        "confirmations": lambda endpoint: endpoint.confirming,
        "confirmed": lambda endpoint: endpoint.confirmed,
        "confirmations_failed": lambda endpoint: endpoint.confirmations_failed,
    }
)
_SIGNATURES: Mapping[str, Callable[[Endpoint], int]] = MappingProxyType(
    {
        "good": lambda endpoint: endpoint.signatures[SignatureStatus.GOOD],
        "bad": lambda endpoint: endpoint.signatures[SignatureStatus.BAD],
        "unsigned": lambda endpoint: endpoint.signatures[SignatureStatus.UNSIGNED],
        "unchecked": lambda endpoint: endpoint.signatures[SignatureStatus.UNCHECKED],
    }
)
COUNTERS: Mapping[str, Callable[[Endpoint], int]] = MappingProxyType({**_ARRIVALS, **_SIGNATURES})
"""Counters that a client can wait for. Only the three `confirm…` ones count confirmations, the others notifications."""
