"""The rules of `cassieq` as tables: when the reader leaves a bucket, what repair does, what a pop receipt is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from cassandra.metadata import Murmur3Token

from cqs.engines.cassieq.bucket import (
    NEVER_MS,
    CassieqMessageRow,
    MessageBucket,
    Repair,
    may_leave,
    repair_of,
    to_republish,
)
from cqs.engines.cassieq.ids import PopReceipt, bucket_of, parse_handle, sequence_of
from cqs.engines.cassieq.schema import MOVED
from cqs.engines.cassieq.settling import ReceiptState, outcome_of, receipt_state
from cqs.engines.contract import Outcome

NOW_MS = 1_000_000
SIZE = 3
WAIT_MS = 30_000


def row(monoton: int = 0, **fields: Any) -> CassieqMessageRow:
    plain: dict[str, Any] = {
        "id": "one",
        "born_at_ms": NOW_MS,
        "tenant": "",
        "tag": "0a0b0c0d",
        "visible_at_ms": NOW_MS,
        "version": 0,
        "deliveries": 0,
        "first_at_ms": 0,
        "acked": False,
        "lease": None,
        "moved_to": None,
    }
    return CassieqMessageRow(monoton=monoton, **{**plain, **fields})


FRESH = row(0)
DELAYED = row(0, visible_at_ms=NOW_MS + 1)
HELD = row(0, version=1, visible_at_ms=NOW_MS + 1)
RETURNED = row(0, version=1)
ACKED = row(0, version=1, acked=True)
TAKEN_BACK = row(0, acked=True)
MOVING = row(0, version=MOVED, moved_to=9)


@pytest.mark.parametrize(("monoton", "bucket"), [(0, 0), (2, 0), (3, 1), (3_000_000_000, 1_000_000_000)])
def test_a_monoton_says_its_bucket(monoton: int, bucket: int) -> None:
    assert bucket_of(monoton, SIZE) == bucket


@pytest.mark.parametrize(
    ("rows", "next_monoton", "leaves"),
    [
        ((), 2, False),  # new messages may come to this bucket
        ((), 3, True),  # three numbers without a message
        ((FRESH,), 3, False),
        ((DELAYED,), 3, True),  # the message comes back as a hidden one
        ((HELD,), 3, True),
        ((HELD,), 2, False),
        ((RETURNED,), 3, True),  # delivered once: the invisibility pointer covers it
        ((ACKED, TAKEN_BACK, MOVING), 3, True),
        ((ACKED, FRESH), 9, False),
    ],
)
def test_when_the_reader_leaves_a_bucket(rows: tuple[CassieqMessageRow, ...], next_monoton: int, leaves: bool) -> None:
    assert may_leave(MessageBucket(0, None, rows), SIZE, next_monoton, NOW_MS) is leaves


@pytest.mark.parametrize(
    ("rows", "sealed_ago_ms", "step"),
    [
        ((), 0, Repair.WAIT),
        ((FRESH,), WAIT_MS - 1, Repair.WAIT),
        ((FRESH,), WAIT_MS, Repair.REPUBLISH),  # a slow writer
        ((), WAIT_MS, Repair.FINALIZE),  # a dead writer
        ((ACKED,), WAIT_MS, Repair.FINALIZE),
        ((HELD, DELAYED, RETURNED), WAIT_MS, Repair.FINALIZE),  # hidden messages, which are known
        ((MOVING,), WAIT_MS, Repair.REPUBLISH),  # another repairer died in the middle
        ((row(0, version=MOVED, moved_to=9, acked=True),), WAIT_MS, Repair.FINALIZE),
    ],
)
def test_what_repair_does(rows: tuple[CassieqMessageRow, ...], sealed_ago_ms: int, step: Repair) -> None:
    assert repair_of(MessageBucket(0, NOW_MS - sealed_ago_ms, rows), WAIT_MS, NOW_MS) is step


def test_a_seal_that_has_expired_is_old_enough() -> None:
    assert repair_of(MessageBucket(0, None, (FRESH,)), WAIT_MS, NOW_MS) is Repair.REPUBLISH


def test_what_is_republished() -> None:
    late, moving = row(1), row(2, version=MOVED, moved_to=7)
    bucket = MessageBucket(
        0, 0, (late, moving, row(3, version=1), row(4, acked=True), row(5, visible_at_ms=NOW_MS + 1))
    )
    assert to_republish(bucket, NOW_MS) == [late, moving]


def test_when_a_bucket_is_due() -> None:
    assert MessageBucket(0, 0, (ACKED, MOVING)).due_ms() == NEVER_MS
    assert MessageBucket(0, 0, (ACKED, HELD, row(1, visible_at_ms=NOW_MS + 9))).due_ms() == NOW_MS + 1


@pytest.mark.parametrize(
    ("version", "tag", "found", "outcome", "state"),
    [
        (1, "0a0b0c0d", HELD, Outcome.STALE, ReceiptState.CURRENT),  # the outcome is what a refused call gets
        (1, "0a0b0c0d", RETURNED, Outcome.STALE, ReceiptState.LEASE_ENDED),
        (1, "0a0b0c0d", row(0, version=2), Outcome.STALE, ReceiptState.EXPIRED),
        (1, "0a0b0c0d", ACKED, Outcome.GONE, ReceiptState.SETTLED),
        (3, "0a0b0c0d", row(0, version=2), Outcome.GONE, ReceiptState.NEVER_ISSUED),
        (1, "ffffffff", row(0, version=2), Outcome.GONE, ReceiptState.NEVER_ISSUED),
        (1, "0a0b0c0d", None, Outcome.GONE, ReceiptState.NEVER_ISSUED),
        (0, "0a0b0c0d", FRESH, Outcome.STALE, ReceiptState.NEVER_ISSUED),
    ],
)
def test_pop_receipts(
    version: int, tag: str, found: CassieqMessageRow | None, outcome: Outcome, state: ReceiptState
) -> None:
    receipt = PopReceipt(0, 0, version, tag)
    assert outcome_of(receipt, found) is outcome
    assert receipt_state(receipt, found, NOW_MS) is state


def test_a_handle_names_its_receipt() -> None:
    receipt = PopReceipt(3, 70_000_000_000, 12, "0123abcd")
    assert parse_handle(receipt.handle) == receipt


def test_sequence_numbers_rise_over_purges() -> None:
    assert sequence_of(0, 5) < sequence_of(0, 6) < sequence_of(1, 0)


@pytest.mark.parametrize("nodes", [3, 8])
def test_buckets_spread_over_the_nodes_of_a_ring(nodes: int) -> None:
    """By Cassandra's hash of the partition key, of which each node has an equal range: one bucket after the other is at
    any node, and of many buckets each has its share."""
    buckets = [_node(f"queue-{number}.0", number % 50, nodes) for number in range(3_000)]
    shares = Counter(buckets)
    assert len(shares) == nodes
    assert all(0.85 <= share * nodes / len(buckets) <= 1.15 for share in shares.values()), shares
    of_one_queue = [_node("queue.0", bucket, nodes) for bucket in range(300)]
    assert all(0.5 <= share * nodes / len(of_one_queue) <= 1.5 for share in Counter(of_one_queue).values())
    stays = sum(one == after for one, after in pairwise(of_one_queue)) / len(of_one_queue)
    assert stays < 1.5 / nodes, "the next bucket is at another node"


def _node(key: str, bucket: int, nodes: int) -> int:
    """The node whose range has the partition (queue, bucket) of `cassieq_messages`."""
    parts = (key.encode(), bucket.to_bytes(8, signed=True))
    token = Murmur3Token.hash_fn(b"".join(len(part).to_bytes(2) + part + b"\0" for part in parts))
    return (int(token) + 2**63) * nodes // 2**64
