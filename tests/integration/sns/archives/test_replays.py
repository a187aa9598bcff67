"""Replays of archived messages: which messages are sent again, and what ends a replay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns.delivery import jobs
from cns.subscriptions.subscription import SubscriptionState
from tests.integration.sns.archives.replay_fixture import (
    ReplayFixture,
    archive_texts,
    live_texts,
    numbered_texts,
    open_site,
    replayed_texts,
)


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[ReplayFixture]:
    async with open_site(tmp_path) as fixture:
        yield fixture


@pytest.mark.spec("replay.pending", "replay.completed")
async def test_archived_messages_are_replayed_in_order_while_live_delivery_continues(fixture: ReplayFixture) -> None:
    published = numbered_texts(250)
    topic, arn, start = await archive_texts(fixture, *published)
    await fixture.start_replay(arn, start)
    assert await fixture.status(arn) == "Pending"
    assert await fixture.replay(arn) == "Completed"
    assert await fixture.take_queued() == {arn: replayed_texts(*published)}
    await fixture.publish(topic, "new")
    await fixture.fan_out()
    assert await fixture.take_queued() == {arn: live_texts("new")}


@pytest.mark.spec("replay.live")
async def test_messages_published_meanwhile_come_after_the_replay(fixture: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(fixture, "a", "b")
    other = await fixture.subscribe(topic, "other.fifo")
    await fixture.start_replay(arn, start)
    await fixture.publish(topic, "c", "d")
    await fixture.fan_out()
    assert await fixture.take_queued() == {other: live_texts("c", "d")}
    assert await fixture.replay(arn) == "Completed"
    await fixture.publish(topic, "e")
    await fixture.fan_out()
    assert await fixture.take_queued() == {
        arn: [*replayed_texts("a", "b", "c", "d"), *live_texts("e")],
        other: live_texts("e"),
    }


@pytest.mark.spec("replay.at-subscribe")
async def test_a_new_subscription_may_begin_with_a_replay(fixture: ReplayFixture) -> None:
    topic, _, start = await archive_texts(fixture, "a", "b")
    policy = f'{{"PointType":"Timestamp","StartingPoint":"{start}"}}'
    late = await fixture.subscribe(topic, "late.fifo", ReplayPolicy=policy)
    assert await fixture.replay(late) == "Completed"
    assert await fixture.take_queued() == {late: replayed_texts("a", "b")}


async def test_a_replay_has_what_was_published_until_its_endpoint_confirmed(fixture: ReplayFixture) -> None:
    """Before it confirms, an endpoint gets nothing live."""
    topic = await fixture.topic("t")
    policy = f'{{"PointType":"Timestamp","StartingPoint":"{fixture.now_text()}"}}'
    await fixture.publish(topic, "a")
    fixture.clock.advance(1_000)
    late = await fixture.rig.subscribe(topic, "https", "https://example.com/hook", ReplayPolicy=policy)
    (asking,) = await fixture.port.receive(jobs.ENDPOINT_JOBS, 10, 30_000, 0)
    await fixture.port.settle(jobs.ENDPOINT_JOBS, [asking.handle])
    fixture.clock.advance(1_000)
    await fixture.publish(topic, "b")
    fixture.clock.advance(1_000)
    (pending,) = await fixture.rig.subscriptions.get([late])
    confirmed = replace(
        pending, state=SubscriptionState.CONFIRMED, confirmed_ms=fixture.clock.now_ms(), version=pending.version + 1
    )
    assert await fixture.rig.subscriptions.replace(confirmed, pending.version, None)
    fixture.clock.advance(1_000)
    await fixture.publish(topic, "c")
    assert await fixture.take_queued(jobs.ENDPOINT_JOBS) == {late: live_texts("c")}
    assert await fixture.replay(late) == "Completed"
    assert await fixture.take_queued(jobs.ENDPOINT_JOBS) == {late: replayed_texts("a", "b")}


@pytest.mark.spec("replay.filter")
async def test_a_replay_applies_the_filter(fixture: ReplayFixture) -> None:
    topic, _, start = await archive_texts(fixture, "ax", "by", "cx")
    some = await fixture.subscribe(topic, "some.fifo", FilterPolicy='{"last":["x"]}')
    await fixture.start_replay(some, start)
    await fixture.replay(some)
    assert await fixture.take_queued() == {some: replayed_texts("ax", "cx")}


@pytest.mark.spec("replay.start", "replay.end")
async def test_from_the_start_inclusive_to_the_end_exclusive(fixture: ReplayFixture) -> None:
    topic, arn, _ = await archive_texts(fixture, "before")
    points: list[str] = []
    for text in ("first", "last", "after"):
        fixture.clock.advance(10)
        points.append(fixture.now_text())
        await fixture.publish(topic, text)
        fixture.clock.advance(10)
    await fixture.fan_out()
    await fixture.take_queued()
    await fixture.start_replay(arn, points[0], points[2])
    assert await fixture.replay(arn) == "Completed"
    assert await fixture.take_queued() == {arn: replayed_texts("first", "last")}


@pytest.mark.spec("replay.ended", "replay.cancel")
async def test_a_replay_with_an_end_pauses_live_delivery_until_its_policy_is_removed(fixture: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(fixture, "a")
    fixture.clock.advance(10)
    await fixture.start_replay(arn, start, fixture.now_text())
    assert await fixture.replay(arn) == "Completed"
    await fixture.publish(topic, "unheard")
    await fixture.fan_out()
    assert await fixture.take_queued() == {arn: replayed_texts("a")}
    await fixture.set_replay_policy(arn, "")
    await fixture.publish(topic, "heard")
    await fixture.fan_out()
    assert await fixture.take_queued() == {arn: live_texts("heard")}
    assert await fixture.status(arn) == "none"


@pytest.mark.spec("replay.in-progress", "replay.completed")
async def test_a_replay_waits_for_an_end_in_the_future(fixture: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(fixture, "a")
    await fixture.start_replay(arn, start, fixture.now_text(3_600_000))
    assert await fixture.replay(arn) == "In progress"
    await fixture.publish(topic, "b")
    await fixture.fan_out()
    assert await fixture.replay(arn) == "In progress"
    fixture.clock.advance(3_600_000)
    assert await fixture.replay(arn) == "Completed"
    assert await fixture.take_queued() == {arn: replayed_texts("a", "b")}


@pytest.mark.spec("replay.cancel")
@pytest.mark.parametrize("nothing", ["", "{}"])
async def test_removing_the_policy_ends_a_replay(fixture: ReplayFixture, nothing: str) -> None:
    topic, arn, start = await archive_texts(fixture, "a")
    await fixture.start_replay(arn, start)
    await fixture.set_replay_policy(arn, nothing)
    await fixture.publish(topic, "b")
    await fixture.fan_out()
    assert await fixture.take_queued() == {arn: live_texts("b")}


@pytest.mark.spec("replay.failed", "archive.off-deletes")
async def test_an_archive_that_ends_fails_its_replays(fixture: ReplayFixture) -> None:
    topic, arn, start = await archive_texts(fixture, "a")
    await fixture.start_replay(arn, start)
    await fixture.rig.set(topic, "ArchivePolicy", "{}")
    assert await fixture.replay(arn) == "Failed"
    await fixture.publish(topic, "b")
    await fixture.fan_out()
    assert await fixture.take_queued() == {arn: live_texts("b")}


async def test_a_replay_without_its_subscription_is_deleted(fixture: ReplayFixture) -> None:
    _, arn, start = await archive_texts(fixture, "a")
    await fixture.start_replay(arn, start)
    await fixture.rig.subscriptions.remove(arn)
    replay = await fixture.rig.replays.get(arn)
    assert replay is not None
    fixture.pass_start_delay()
    assert not await fixture.replay_worker().step(replay)
    assert await fixture.rig.replays.active() == [replay]
    fixture.clock.advance(60_000)
    assert not await fixture.replay_worker().step(replay)
    assert await fixture.rig.replays.active() == []


async def test_a_standard_topic_archives_in_the_commit_of_the_publish(
    fixture: ReplayFixture,
) -> None:
    topic = await fixture.topic("standard")
    start = fixture.now_text()
    await fixture.publish(topic, "unheard")  # published while there was no subscription
    arn = await fixture.subscribe(topic, "q")
    await fixture.publish(topic, "a", "b")
    assert await fixture.take_queued(jobs.ENDPOINT_JOBS) == {arn: live_texts("a", "b")}
    fixture.clock.advance(10)
    await fixture.start_replay(arn, start)
    await fixture.publish(topic, "c")
    assert await fixture.replay(arn) == "Completed"
    queued = (await fixture.take_queued(jobs.ENDPOINT_JOBS))[arn]
    assert sorted(queued) == sorted([*replayed_texts("unheard", "a", "b"), *live_texts("c")])
