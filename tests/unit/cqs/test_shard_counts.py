"""When a process proposes another number of shards, and which buckets a process writes for them."""

from __future__ import annotations

from collections import Counter

from cns_common.clock import Clock
from cqs.engines.cluster.bucket_writer import OpenBuckets
from cqs.engines.cluster.ids import number_of
from cqs.engines.cluster.servers.layout import Layout, ServerAddress
from cqs.engines.cluster.servers.shard_counts import DIFFERENCE_MS, SHARDED_MAX, ShardCounts

FIRST = Layout.first((ServerAddress("a", "redis://a"),))


class Process:
    """The view of one process, and the layout."""

    def __init__(self, layout: Layout = FIRST) -> None:
        self.layout = layout
        self.counts = ShardCounts(lambda: self.layout)

    def sees(self, count: int, now_ms: int = 0) -> dict[str, int]:
        self.counts.note("queue", count, now_ms)
        return self.counts.take_wanted()


def test_a_new_queue_and_a_change_are_proposed() -> None:
    process = Process()
    assert process.sees(1) == {}
    assert process.sees(4) == {"queue": 4}
    assert process.sees(4) == {}, "it was taken"
    process.layout = FIRST.with_shards(2, {"queue": 4})
    assert process.sees(4) == {}
    assert process.sees(2) == {"queue": 2}


def test_an_old_attribute_is_not_proposed() -> None:
    """The process has it from its cache; the others have changed it."""
    process = Process(FIRST.with_shards(2, {"queue": 4}))
    assert process.sees(1, 0) == {}
    assert process.sees(1, DIFFERENCE_MS - 1) == {}
    assert process.sees(1, DIFFERENCE_MS) == {"queue": 1}


def test_a_proposal_that_fails_is_repeated() -> None:
    process = Process()
    wanted = process.sees(4)
    process.counts.put_back(wanted)
    assert process.counts.take_wanted() == {"queue": 4}


def test_a_dropped_queue_leaves_the_layout() -> None:
    process = Process(FIRST.with_shards(2, {"queue": 4}))
    process.counts.forget("queue")
    process.counts.forget("another")
    assert process.counts.take_wanted() == {"queue": 0}


def test_the_layout_is_bounded() -> None:
    process = Process(FIRST.with_shards(2, {f"queue-{number}": 2 for number in range(SHARDED_MAX)}))
    assert process.sees(4) == {}
    process.counts.note("queue-1", 2, 0)
    process.counts.note("queue-1", 3, 0)
    assert process.counts.take_wanted() == {"queue-1": 3}


def test_a_process_writes_as_much_into_each_shard() -> None:
    writer = OpenBuckets("deadbeef", Clock(), lambda _: None)
    shards: Counter[int] = Counter()
    buckets = set()
    for _ in range(4_000):
        opened, locations = writer.begin_write("queue", 0, [1], 1_000, 12)
        writer.end_write(opened)
        buckets.add(opened.name)
        shards[number_of(locations[0].bucket) % 4] += 1
    assert len(buckets) == 12
    assert len(shards) == 4
    assert min(shards.values()) > 850


def test_other_numbers_of_buckets_begin_others() -> None:
    writer = OpenBuckets("deadbeef", Clock(), lambda _: None)
    (few, _), (many, _) = (writer.begin_write("queue", 0, [1], 1_000, n) for n in (1, 100))
    assert few.name != many.name
    assert writer.begin_write("queue", 0, [1], 1_000, 1)[0].name != few.name or number_of(many.name) % 100
