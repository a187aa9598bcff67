"""Replays of archived messages: which messages are sent again, and what ends a replay."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cns.delivery import jobs
from cns.subscriptions.subscription import SubscriptionState
from tests.integration.sns.archives.replay_fixture import (
    ReplayFixture,
    archive_texts,
    live_texts,
    numbered_texts,
    replayed_texts,
)


@pytest.mark.spec("replay.pending", "replay.completed")
async def test_archived_messages_are_replayed_in_order_while_live_delivery_continues(site: ReplayFixture) -> None:
    published = numbered_texts(250)
    topic, arn, start = await archive_texts(site, *published)
    await site.start_replay(arn, start)
    assert await site.status(arn) == "Pending"
    assert await site.replay(arn) == "Completed"
    assert await site.take_queued() == {arn: replayed_texts(*published)}
    await site.publish(topic, "new")
    await site.fan_out()
    assert await site.take_queued() == {arn: live_texts("new")}


@pytest.mark.spec("replay.live")
async def test_messages_published_meanwhile_come_after_the_replay(site: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(site, "a", "b")
    other = await site.subscribe(topic, "other.fifo")
    await site.start_replay(arn, start)
    await site.publish(topic, "c", "d")
    await site.fan_out()
    assert await site.take_queued() == {other: live_texts("c", "d")}
    assert await site.replay(arn) == "Completed"
    await site.publish(topic, "e")
    await site.fan_out()
    assert await site.take_queued() == {
        arn: [*replayed_texts("a", "b", "c", "d"), *live_texts("e")],
        other: live_texts("e"),
    }


@pytest.mark.spec("replay.at-subscribe")
async def test_a_new_subscription_may_begin_with_a_replay(site: ReplayFixture) -> None:
    topic, _, start = await archive_texts(site, "a", "b")
    policy = f'{{"PointType":"Timestamp","StartingPoint":"{start}"}}'
    late = await site.subscribe(topic, "late.fifo", ReplayPolicy=policy)
    assert await site.replay(late) == "Completed"
    assert await site.take_queued() == {late: replayed_texts("a", "b")}


async def test_a_replay_has_what_was_published_until_its_endpoint_confirmed(site: ReplayFixture) -> None:
    """Before it confirms, an endpoint gets nothing live."""
    topic = await site.topic("t")
    policy = f'{{"PointType":"Timestamp","StartingPoint":"{site.now_text()}"}}'
    await site.publish(topic, "a")
    site.clock.advance(1_000)
    late = await site.rig.subscribe(topic, "https", "https://example.com/hook", ReplayPolicy=policy)
    (asking,) = await site.port.receive(jobs.ENDPOINT_JOBS, 10, 30_000, 0)
    await site.port.settle(jobs.ENDPOINT_JOBS, [asking.handle])
    site.clock.advance(1_000)
    await site.publish(topic, "b")
    site.clock.advance(1_000)
    (pending,) = await site.rig.subscriptions.get([late])
    confirmed = replace(
        pending, state=SubscriptionState.CONFIRMED, confirmed_ms=site.clock.now_ms(), version=pending.version + 1
    )
    assert await site.rig.subscriptions.replace(confirmed, pending.version, None)
    site.clock.advance(1_000)
    await site.publish(topic, "c")
    assert await site.take_queued(jobs.ENDPOINT_JOBS) == {late: live_texts("c")}
    assert await site.replay(late) == "Completed"
    assert await site.take_queued(jobs.ENDPOINT_JOBS) == {late: replayed_texts("a", "b")}


@pytest.mark.spec("replay.filter")
async def test_a_replay_applies_the_filter(site: ReplayFixture) -> None:
    topic, _, start = await archive_texts(site, "ax", "by", "cx")
    some = await site.subscribe(topic, "some.fifo", FilterPolicy='{"last":["x"]}')
    await site.start_replay(some, start)
    await site.replay(some)
    assert await site.take_queued() == {some: replayed_texts("ax", "cx")}


@pytest.mark.spec("replay.start", "replay.end")
async def test_from_the_start_inclusive_to_the_end_exclusive(site: ReplayFixture) -> None:
    topic, arn, _ = await archive_texts(site, "before")
    points: list[str] = []
    for text in ("first", "last", "after"):
        site.clock.advance(10)
        points.append(site.now_text())
        await site.publish(topic, text)
        site.clock.advance(10)
    await site.fan_out()
    await site.take_queued()
    await site.start_replay(arn, points[0], points[2])
    assert await site.replay(arn) == "Completed"
    assert await site.take_queued() == {arn: replayed_texts("first", "last")}


@pytest.mark.spec("replay.ended", "replay.cancel")
async def test_a_replay_with_an_end_pauses_live_delivery_until_its_policy_is_removed(site: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(site, "a")
    site.clock.advance(10)
    await site.start_replay(arn, start, site.now_text())
    assert await site.replay(arn) == "Completed"
    await site.publish(topic, "unheard")
    await site.fan_out()
    assert await site.take_queued() == {arn: replayed_texts("a")}
    await site.set_replay_policy(arn, "")
    await site.publish(topic, "heard")
    await site.fan_out()
    assert await site.take_queued() == {arn: live_texts("heard")}
    assert await site.status(arn) == "none"


@pytest.mark.spec("replay.in-progress", "replay.completed")
async def test_a_replay_waits_for_an_end_in_the_future(site: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(site, "a")
    await site.start_replay(arn, start, site.now_text(3_600_000))
    assert await site.replay(arn) == "In progress"
    await site.publish(topic, "b")
    await site.fan_out()
    assert await site.replay(arn) == "In progress"
    site.clock.advance(3_600_000)
    assert await site.replay(arn) == "Completed"
    assert await site.take_queued() == {arn: replayed_texts("a", "b")}


@pytest.mark.spec("replay.cancel")
@pytest.mark.parametrize("nothing", ["", "{}"])
async def test_removing_the_policy_ends_a_replay(site: ReplayFixture, nothing: str) -> None:
    topic, arn, start = await archive_texts(site, "a")
    await site.start_replay(arn, start)
    await site.set_replay_policy(arn, nothing)
    await site.publish(topic, "b")
    await site.fan_out()
    assert await site.take_queued() == {arn: live_texts("b")}


@pytest.mark.spec("replay.failed", "archive.off-deletes")
async def test_an_archive_that_ends_fails_its_replays(site: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(site, "a")
    await site.start_replay(arn, start)
    await site.rig.set(topic, "ArchivePolicy", "{}")
    assert await site.replay(arn) == "Failed"
    await site.publish(topic, "b")
    await site.fan_out()
    assert await site.take_queued() == {arn: live_texts("b")}


async def test_a_replay_without_its_subscription_is_deleted(site: ReplayFixture) -> None:
    _, arn, start = await archive_texts(site, "a")
    await site.start_replay(arn, start)
    await site.rig.subscriptions.remove(arn)
    replay = await site.rig.replays.get(arn)
    assert replay is not None
    site.pass_start_delay()
    assert not await site.replay_worker().step(replay)
    assert await site.rig.replays.active() == [replay]
    site.clock.advance(60_000)
    assert not await site.replay_worker().step(replay)
    assert await site.rig.replays.active() == []


async def test_a_standard_topic_archives_in_the_commit_of_the_publish(site: ReplayFixture) -> None:
    topic = await site.topic("standard")
    start = site.now_text()
    await site.publish(topic, "unheard")  # published while there was no subscription
    arn = await site.subscribe(topic, "q")
    await site.publish(topic, "a", "b")
    assert await site.take_queued(jobs.ENDPOINT_JOBS) == {arn: live_texts("a", "b")}
    site.clock.advance(10)
    await site.start_replay(arn, start)
    await site.publish(topic, "c")
    assert await site.replay(arn) == "Completed"
    queued = (await site.take_queued(jobs.ENDPOINT_JOBS))[arn]
    assert sorted(queued) == sorted([*replayed_texts("unheard", "a", "b"), *live_texts("c")])
