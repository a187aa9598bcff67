"""The destinations of `cns replay` in the service: one subscription, all of a topic, a topic that is filled again."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.jobs import TARGETS_MAX, EndpointJob
from cns.notification import Notification
from cns.topics.cache import TopicView, view_of
from cns_cli.replay.job_destinations import AllSubscriptionsDestination, JobContext, SubscriptionDestination
from cns_cli.replay.topic_destination import TopicDestination
from cns_common.events.schema import NotificationMatched, PublishAccepted
from tests.integration.sns.archives.replay_fixture import (
    ReplayFixture,
    attributes_of,
    numbered_texts,
    replayed_texts,
)
from tests.recorded_events import RecordedEvents

REPLAY = "a replay"
YEAR_MS = 365 * 86_400_000


async def no_sleep(_: float) -> None:
    raise AssertionError


def context(site: ReplayFixture) -> JobContext:
    return JobContext(site.port, site.clock, RecordedEvents(), no_sleep)


async def view(site: ReplayFixture, arn: str) -> TopicView:
    topic = await site.rig.topics.get(arn)
    assert topic is not None
    return view_of(topic)


def archived(site: ReplayFixture, topic_arn: str, *texts: str, size: int = 0) -> list[Notification]:
    """Messages of a year ago: of a FIFO topic with one deduplication id, as of equal content."""
    fifo = topic_arn.endswith(".fifo")
    return [
        Notification(
            id=f"id of {text}",
            topic_arn=topic_arn,
            timestamp_ms=site.clock.now_ms() - YEAR_MS + number,
            texts={"default": text + "x" * size},
            attributes={name: (each["DataType"], each["StringValue"]) for name, each in attributes_of(text).items()},
            sequence_number=f"{number:020d}" if fifo else "",
            message_group_id="g" if fifo else "",
            message_deduplication_id="equal" if fifo else "",
        )
        for number, text in enumerate(texts)
    ]


async def test_a_topic_filled_again_takes_equal_content_once_per_message(site: ReplayFixture) -> None:
    topic = await site.topic()
    arn = await site.subscribe(topic)
    past = archived(site, "arn:aws:sns:eu-west-1:111111111111:earlier.fifo", "a", "b", "c")
    destination = TopicDestination(site.rig.service.dispatcher, site.port, await view(site, topic), REPLAY, no_sleep)
    assert await destination.send(past) == 3
    assert await destination.send(past[1:]) == 2, "a page that is repeated"
    await site.fan_out()
    queued = (await site.take_queued())[arn]
    assert [(each.text, each.replayed) for each in queued] == [("a", True), ("b", True), ("c", True)]
    page = await site.rig.archives.page((await view(site, topic)).topic.archive.id, 0, 2**60, "", 10)  # type: ignore[union-attr]  # the topic has one
    kept = [each.notification for each in page]
    assert [(each.id, each.timestamp_ms) for each in kept] == [(each.id, each.timestamp_ms) for each in past]
    accepted = [event for event in site.rig.events.events if isinstance(event, PublishAccepted)]
    assert [event.replayed for event in accepted] == [True] * 3


async def test_a_topic_filled_again_still_replays_its_own_messages(site: ReplayFixture) -> None:
    """The past of another topic that it got does not hide what was published to it before, in a replay of its own."""
    topic = await site.topic()
    arn = await site.subscribe(topic)
    start = site.now_text()
    texts = numbered_texts(3)
    await site.publish(topic, *texts)
    await site.fan_out()
    site.clock.advance(300_000)
    past = archived(site, "arn:aws:sns:eu-west-1:111111111111:earlier.fifo", "a", "b")
    destination = TopicDestination(site.rig.service.dispatcher, site.port, await view(site, topic), REPLAY, no_sleep)
    await destination.send(past)
    site.clock.advance(300_000)
    await site.fan_out()
    await site.publish(topic, "last")
    await site.fan_out()
    await site.take_queued()
    await site.start_replay(arn, start)
    assert await site.replay(arn) == "Completed"
    assert (await site.take_queued()) == {arn: replayed_texts(*texts, "a", "b", "last")}


async def test_a_large_message_of_last_year_is_stored_until_it_is_delivered(site: ReplayFixture) -> None:
    topic = await site.topic("t")
    await site.subscribe(topic, "q")
    (past,) = archived(site, topic, "large", size=jobs.INLINE_BYTES_MAX)
    destination = TopicDestination(site.rig.service.dispatcher, site.port, await view(site, topic), REPLAY, no_sleep)
    await destination.send([past])
    assert await site.rig.notifications.sweep(site.clock.now_ms(), 10) == 0
    assert await site.rig.notifications.get(past.id) == replace(past, replayed=True)


@pytest.mark.parametrize(("name", "unfiltered"), [("t", TARGETS_MAX + 10), ("t.fifo", 15)])
async def test_all_subscriptions_of_a_topic_get_each_message_once(
    site: ReplayFixture, name: str, unfiltered: int
) -> None:
    """On a standard topic more than one page of them; some have a filter."""
    topic = await site.topic(name)
    suffix = name.removeprefix("t")
    plain = [await site.subscribe(topic, f"q{number}{suffix}") for number in range(unfiltered)]
    filtered = [
        await site.subscribe(topic, f"f{number}{suffix}", FilterPolicy='{"last":["1"]}') for number in range(20)
    ]
    texts = numbered_texts(3)
    past = archived(site, topic, *texts)
    destination = AllSubscriptionsDestination(context(site), site.rig.service.matcher, topic, REPLAY)
    assert await destination.send(past) == 3
    got = await received(site, name)
    assert got == {**dict.fromkeys(plain, texts), **dict.fromkeys(filtered, texts[1:2])}
    assert await site.port.depth(jobs.PUBLISH_JOBS) == await site.port.depth(jobs.FIFO_PUBLISH_JOBS) == 0


async def test_one_subscription_by_its_own_filter_too(site: ReplayFixture) -> None:
    topic = await site.topic("t")
    await site.subscribe(topic, "other")
    arn = await site.subscribe(topic, "q", FilterPolicy='{"last":["1","2"]}')
    (subscription,) = await site.rig.subscriptions.get([arn])
    made = context(site)
    past = archived(site, "arn:aws:sns:eu-west-1:111111111111:earlier", *numbered_texts(4))
    assert await SubscriptionDestination(made, subscription, REPLAY).send(past) == 2
    assert await received(site, "t") == {arn: numbered_texts(4)[1:3]}
    assert isinstance(made.events, RecordedEvents)
    matched = [event for event in made.events.events if isinstance(event, NotificationMatched)]
    assert [(event.topic, event.matched, event.replayed) for event in matched] == [(topic, 1, True)] * 2


async def received(site: ReplayFixture, name: str) -> dict[str, list[str]]:
    """The texts queued for each subscription, in their order; all are marked as replayed."""
    queue = jobs.FIFO_ENDPOINT_JOBS if name.endswith(".fifo") else jobs.ENDPOINT_JOBS
    found: dict[str, list[str]] = {}
    counted: Counter[tuple[str, str]] = Counter()
    while held := await site.port.receive(queue, 10, 30_000, 0):
        for each in held:
            job = jobs.decode(each.body)
            assert isinstance(job, EndpointJob)
            assert job.inline is not None
            assert job.inline.replayed
            for arn in job.subscriptions:
                found.setdefault(arn, []).append(job.inline.texts["default"])
                counted[arn, job.notification_id] += 1
        await site.port.settle(queue, [each.handle for each in held])
    assert set(counted.values()) == {1}
    return found
