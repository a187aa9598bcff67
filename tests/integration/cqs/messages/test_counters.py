"""The counts of each queue's messages: as events, as metrics, and beside the real depth."""

from __future__ import annotations

import asyncio

import pytest

from cns_common.errors import StoreUnavailable
from cns_common.events.schema import QueueCounted
from cns_common.metrics.model import Sample
from cqs.engines.contract import Counts, Message, Outcome, QueueRef
from cqs.internal_queues import internal_key
from cqs.messages import count_report
from cqs.messages.count_report import QueueCountReporter
from tests.integration.cqs.messages.test_dead_letters import redrive, spend
from tests.integration.cqs.sqs import ACCOUNT, Sqs
from tests.recorded_events import RecordedEvents

OLDEST = "oldest"


class CountedQueues:
    def __init__(self, sqs: Sqs) -> None:
        self._sqs = sqs
        self._sink = RecordedEvents()
        self.reporter = QueueCountReporter(sqs.service.counters, sqs.service.cache, self._sink, sqs.clock)

    async def report(self) -> dict[str, QueueCounted]:
        """The events of the next report, by queue name."""
        self._sink.events.clear()
        await self.reporter.report()
        events = [event for event in self._sink.events if isinstance(event, QueueCounted)]
        assert len(events) == len(self._sink.events)
        return {event.queue.rpartition(":")[2]: event for event in events}


@pytest.fixture
def counted(sqs: Sqs) -> CountedQueues:
    return CountedQueues(sqs)


def used(event: QueueCounted) -> tuple[int, ...]:
    return event.sent, event.received, event.deleted, event.moved_in, event.moved_out


def depth(event: QueueCounted) -> tuple[int, int, int]:
    return event.visible, event.in_flight, event.delayed


async def test_what_is_used_is_reported_once_with_the_depth(sqs: Sqs, counted: CountedQueues) -> None:
    url = await sqs.queue("q")
    began_ms = sqs.clock.now_ms()
    for number in range(4):
        await sqs.send(url, str(number))
    await sqs.send(url, "later", DelaySeconds=60)
    first, *_ = await sqs.receive(url, 2)
    await sqs.delete(url, first)
    await sqs.delete(url, first)  # the message is gone
    sqs.advance(3)
    event = (await counted.report())["q"]
    assert used(event) == (5, 2, 1, 0, 0)
    assert depth(event) == await sqs.counts(url) == (2, 1, 1)
    assert event.oldest_age_s >= 3
    assert event.since_ms <= began_ms <= event.at_ms - 3_000
    assert await counted.report() == {}


async def test_duplicates_in_a_fifo_queue_are_not_counted(sqs: Sqs, counted: CountedQueues) -> None:
    url = await sqs.queue("q.fifo")
    for dedup in ("a", "b", "a"):
        await sqs.send(url, MessageGroupId="g", MessageDeduplicationId=dedup)
    event = (await counted.report())["q.fifo"]
    assert (used(event), depth(event)) == ((2, 0, 0, 0, 0), (2, 0, 0))


async def test_dead_letters_move_from_one_queue_to_another(sqs: Sqs, counted: CountedQueues) -> None:
    source, _ = await redrive(sqs)
    await sqs.send(source)
    await spend(sqs, source, 1)
    assert await sqs.receive(source) == []
    found = await counted.report()
    assert {name: used(event) for name, event in found.items()} == {
        "source": (1, 1, 0, 0, 1),
        "dead": (0, 0, 0, 1, 0),
    }
    assert {name: depth(event) for name, event in found.items()} == {"source": (0, 0, 0), "dead": (1, 0, 0)}


async def test_a_queue_that_is_deleted_has_no_depth_left(sqs: Sqs, counted: CountedQueues) -> None:
    url = await sqs.queue("q")
    await sqs.send(url)
    await sqs("DeleteQueue", QueueUrl=url)
    event = (await counted.report())["q"]
    assert (used(event), depth(event)) == ((1, 0, 0, 0, 0), (0, 0, 0))


async def test_the_depth_of_a_deleted_queue_is_shown_no_more(sqs: Sqs, counted: CountedQueues) -> None:
    urls = [await sqs.queue(name) for name in ("gone-since", "gone-at-once", "kept")]
    for url in urls:
        await sqs.send(url)
    await sqs("DeleteQueue", QueueUrl=urls[1])
    await counted.report()
    assert shown(counted) == {"gone-since", "kept"}
    await sqs("DeleteQueue", QueueUrl=urls[0])
    await counted.report()
    assert shown(counted) == {"kept"}


async def test_internal_queues_are_not_counted(sqs: Sqs, counted: CountedQueues) -> None:
    view = await sqs.service.cache.find(internal_key("jobs"))
    assert view is not None
    sqs.service.counters.add_received(view, [Message("id", b"handle", b"", 1, 1, 0, 0, "")])
    sqs.service.counters.add_deleted(view, [Outcome.DONE])
    assert (await counted.report(), sums(counted)) == ({}, {})


async def test_while_the_store_is_away_there_are_counts_without_depths(
    sqs: Sqs, counted: CountedQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await sqs.queue("q")
    await sqs.send(url)

    async def away(q: QueueRef, now_ms: int, *, oldest: bool) -> Counts:
        raise StoreUnavailable("away")

    monkeypatch.setattr(sqs.engine, "counts", away)
    event = (await counted.report())["q"]
    assert (used(event), depth(event), event.oldest_age_s) == ((1, 0, 0, 0, 0), (-1, -1, -1), -1)


async def test_a_depth_that_is_not_known_is_the_last_one_in_metrics(
    sqs: Sqs, counted: CountedQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sqs.send(await sqs.queue("known"))
    await counted.report()
    for name in ("known", "unknown"):
        await sqs.send(await sqs.queue(name))

    async def away(q: QueueRef, now_ms: int, *, oldest: bool) -> Counts:
        raise StoreUnavailable("not counted yet")

    monkeypatch.setattr(sqs.engine, "counts", away)
    await counted.report()
    assert shown(counted) == {"known"}
    assert sums(counted)["known", "visible"] == 1


async def test_a_queue_that_takes_long_keeps_no_other_from_its_depth(
    sqs: Sqs, counted: CountedQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_report, "DEPTHS_AT_ONCE", 2)
    monkeypatch.setattr(count_report, "DEPTHS_TIMEOUT_S", 0.5)
    names = ("deep", "a", "b", "c")
    for name in names:
        await sqs.send(await sqs.queue(name))
    scanned = list[str]()

    async def counts(q: QueueRef, now_ms: int, *, oldest: bool) -> Counts:
        scanned.append(q.id)
        if q.id == scanned[0]:
            await asyncio.Event().wait()
        return Counts(visible=1)

    monkeypatch.setattr(sqs.engine, "counts", counts)
    found = await counted.report()
    assert {name: event.visible for name, event in found.items()} == {"deep": -1, "a": 1, "b": 1, "c": 1}


async def test_metrics_are_exact_before_and_after_a_report(sqs: Sqs, counted: CountedQueues) -> None:
    url = await sqs.queue("q")
    await sqs.send(url)
    assert sums(counted) == {("q", "sent"): 1}
    await counted.report()
    await sqs.send(url)
    await sqs.receive(url, 1)
    assert sums(counted) == {("q", "sent"): 2, ("q", "received"): 1, ("q", "visible"): 1}


async def test_messages_that_came_back_are_counted(sqs: Sqs, counted: CountedQueues) -> None:
    """Those that were not deleted within their visibility timeout, or were given back: of a queue with many of them the
    timeout is too short."""
    url = await sqs.queue("q", VisibilityTimeout="30")
    for number in range(3):
        await sqs.send(url, str(number))
    kept, given_back, _ = await sqs.receive(url)
    assert sums(counted) == {("q", "sent"): 3, ("q", "received"): 3}
    await sqs.hide(url, given_back, 0)
    assert len(await sqs.receive(url)) == 1
    await sqs.delete(url, kept)
    sqs.advance(31)
    assert len(await sqs.receive(url)) == 2
    found = sums(counted)
    assert (found["q", "received"], found["q", "received_again"]) == (6, 3)


async def test_many_queues_share_one_label(sqs: Sqs, counted: CountedQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqs.service.counters, "shown_max", 2)
    for name in ("a", "b", "c", "d"):
        await sqs.send(await sqs.queue(name))
    shared = {("a", "sent"): 1, ("b", "sent"): 1, ("", "sent"): 2}
    assert sums(counted) == shared
    await counted.report()
    assert {key: n for key, n in sums(counted).items() if key[1] == "sent"} == shared
    depths = {("a", "visible"): 1, ("b", "visible"): 1, ("", "visible"): 2}
    assert {key: n for key, n in sums(counted).items() if key[1] == "visible"} == depths
    await sqs.send(f"{await sqs.queue('e')}")
    await counted.report()
    assert sums(counted)[("", "sent")] == sums(counted)[("", "visible")] == 3


async def test_the_age_of_the_oldest_message(sqs: Sqs, counted: CountedQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqs.service.counters, "shown_max", 1)
    for name in ("a", "b", "c"):
        await sqs.send(await sqs.queue(name))
        sqs.advance(10)
    await counted.report()
    assert {name: s // 10 for (name, what), s in sums(counted).items() if what == OLDEST} == {"a": 3, "": 2}
    url = await sqs.queue("a")
    await sqs.delete(url, *await sqs.receive(url))
    await counted.report()
    assert {name: s // 10 for (name, what), s in sums(counted).items() if what == OLDEST} == {"": 2}


async def test_few_queues_are_looked_up_in_a_report(
    sqs: Sqs, counted: CountedQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost announcement of a deletion shows within some reports."""
    monkeypatch.setattr(count_report, "LOOKED_UP_AT_ONCE", 2)
    names = ("a", "b", "c", "d", "e")
    urls = [await sqs.queue(name) for name in names]
    for url in urls:
        await sqs.send(url)
    await counted.report()
    await sqs("DeleteQueue", QueueUrl=urls[-1])
    counted.reporter._changed.clear()
    cache, found = sqs.service.cache, list[int]()
    for _ in range(3):
        cache.clear()
        await counted.report()
        found.append(sum(cache.cached((ACCOUNT, "us-east-1", name)) is not None for name in names))
    assert found == [2, 0, 2]
    assert shown(counted) == {*names[:-1]}


async def test_depths_are_kept_of_the_queues_that_were_reported_last(
    sqs: Sqs, counted: CountedQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_report, "DEPTHS_KEPT_MAX", 2)
    for name in ("a", "b", "c", "a"):
        await sqs.send(await sqs.queue(name))
        await counted.report()
    assert shown(counted) == {"c", "a"}


def shown(counted: CountedQueues) -> set[str]:
    """The queues that have a depth."""
    return {name for name, what in map(_key, counted.reporter.samples()) if what == "visible"}


def sums(counted: CountedQueues) -> dict[tuple[str, str], float]:
    """The samples that are not 0, by queue name and action or state."""
    return {_key(sample): sample.value for sample in counted.reporter.samples() if sample.value}


def _key(sample: Sample) -> tuple[str, str]:
    (_, arn), *rest = sample.labels
    return arn.rpartition(":")[2], rest[0][1] if rest else OLDEST
