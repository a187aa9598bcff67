"""The bounds of a bucket, and locations that are used once whatever the clock does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqs.engines.cluster import bucket_writer, ids
from cqs.engines.cluster.bucket_writer import OpenBucket, OpenBuckets
from cqs.engines.cluster.ids import MessageLocation, bucket_name, number_of
from cqs.engines.cluster.schema import BUCKET_SPAN_MS
from tests.machine_clocks import MachineClocks

QUEUE = "q"
ROWS_MAX, BYTES_MAX = 300, 4_096
"""Smaller limits of a bucket, and a smaller counter, of as many numbers in one ms, for the tests."""
COUNTER_BITS = 9
NODE = "0000000a"
NOW_MS = 1_760_000_000_000
HOURS = 14 * 24
PER_MS = 2**COUNTER_BITS


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_writer, "BUCKET_ROWS_MAX", ROWS_MAX)
        patch.setattr(bucket_writer, "BUCKET_BYTES_MAX", BYTES_MAX)
        for module in (bucket_writer, ids):
            patch.setattr(module, "COUNTER_BITS", COUNTER_BITS)
        yield


def open_buckets() -> OpenBuckets:
    return OpenBuckets(NODE, MachineClocks().clock(), lambda _: None)


def write(buckets: OpenBuckets, n: int, now_ms: int, size: int = 1) -> tuple[OpenBucket, list[MessageLocation]]:
    opened, locations = buckets.begin_write(QUEUE, 0, [size] * n, now_ms)
    buckets.end_write(opened)
    return opened, locations


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 10, ROWS_MAX // 3]),
            st.sampled_from([1, 20, BYTES_MAX // 7]),
            st.sampled_from([0, 1, BUCKET_SPAN_MS // 3]),
        ),
        max_size=40,
    )
)
def test_a_bucket_ends_at_the_first_of_its_bounds(sends: list[tuple[int, int, int]]) -> None:
    """In rows, bytes and age."""
    buckets, now_ms = open_buckets(), NOW_MS
    rows, stored, begun = defaultdict[str, int](int), defaultdict[str, int](int), dict[str, int]()
    for n, size, pause_ms in sends:
        messages = min(n, max(1, BYTES_MAX // size))
        now_ms += pause_ms
        opened, locations = write(buckets, messages, now_ms, size)
        assert {location.bucket for location in locations} == {opened.name}
        rows[opened.name] += messages
        stored[opened.name] += messages * size
        assert now_ms - begun.setdefault(opened.name, now_ms) < BUCKET_SPAN_MS
    assert all(n <= ROWS_MAX for n in rows.values())
    assert all(n <= BYTES_MAX for n in stored.values())


def test_the_buckets_of_a_queue_are_bounded_by_hours_and_messages() -> None:
    """The list of a queue's buckets is a partition, too: one row an hour of the retention, and one for each bucket that
    was full."""
    buckets, names, messages = open_buckets(), set[str](), 0
    for hour in range(HOURS):
        for minute in range(0, 60, 10):
            n = ROWS_MAX if hour % 24 == 0 else 10
            messages += n
            names.add(write(buckets, n, NOW_MS + (hour * 60 + minute) * 60_000)[0].name)
    assert len(names) <= HOURS + messages // ROWS_MAX + 1
    assert len(names) < 500


def test_a_counter_that_overflows_goes_on_in_the_next_millisecond() -> None:
    """More messages in one ms than the counter has numbers: locations rise, and none is used twice."""
    buckets, rises = open_buckets(), list[int]()
    sent = 0
    while sent <= PER_MS + ROWS_MAX:
        _, locations = write(buckets, ROWS_MAX // 3, NOW_MS)
        rises += [location.sequence for location in locations]
        sent += len(locations)
    assert locations[-1].arrived_ms == NOW_MS + 1
    for later_ms in (0, 1, 2):
        rises += [location.sequence for location in write(buckets, 1, NOW_MS + later_ms)[1]]
    assert all(before < after for before, after in pairwise(rises))


def test_a_clock_that_goes_back_repeats_no_location() -> None:
    buckets, rises = open_buckets(), list[int]()
    for now_ms in (NOW_MS, NOW_MS - 5_000, NOW_MS - 4_999, NOW_MS + 1):
        rises += [location.sequence for location in write(buckets, 3, now_ms)[1]]
    assert all(before < after for before, after in pairwise(rises))


def test_the_buckets_of_one_millisecond_have_names_of_their_own() -> None:
    """As many names as the number of a bucket has values, over all queues of a process."""
    buckets = open_buckets()
    names = [buckets.begin_write(f"q{n}", 0, [1], NOW_MS)[0].name for n in range(1_000)]
    assert len(set(names)) == len(names)
    assert [number_of(name) for name in names] == list(range(1_000))
    assert bucket_name(0, NOW_MS, NODE, 16**4) == bucket_name(0, NOW_MS, NODE, 0), "it begins anew after them"
