"""Replay of what topics kept: what comes again and from when to when, and what ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery import jobs
from tests.integration.sns.archives.replay_site import ReplaySite, again, kept, live, open_site, texts


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ReplaySite]:
    async with open_site(tmp_path) as site:
        yield site


@pytest.mark.spec("replay.pending", "replay.completed")
async def test_what_was_kept_comes_again_in_order_and_live_delivery_goes_on(site: ReplaySite) -> None:
    given = texts(250)
    topic, arn, start = await kept(site, *given)
    await site.ask(arn, start)
    assert await site.status(arn) == "Pending"
    assert await site.replay(arn) == "Completed"
    assert await site.came() == {arn: again(*given)}
    await site.publish(topic, "new")
    await site.fan_out()
    assert await site.came() == {arn: live("new")}


@pytest.mark.spec("replay.live")
async def test_what_is_published_meanwhile_comes_behind_it_and_once(site: ReplaySite) -> None:
    topic, arn, start = await kept(site, "a", "b")
    other = await site.subscribe(topic, "other.fifo")
    await site.ask(arn, start)
    await site.publish(topic, "c", "d")
    await site.fan_out()
    assert await site.came() == {other: live("c", "d")}
    assert await site.replay(arn) == "Completed"
    await site.publish(topic, "e")
    await site.fan_out()
    assert await site.came() == {arn: [*again("a", "b", "c", "d"), *live("e")], other: live("e")}


@pytest.mark.spec("replay.at-subscribe")
async def test_a_new_subscription_may_begin_with_a_replay(site: ReplaySite) -> None:
    topic, _, start = await kept(site, "a", "b")
    policy = f'{{"PointType":"Timestamp","StartingPoint":"{start}"}}'
    late = await site.subscribe(topic, "late.fifo", ReplayPolicy=policy)
    assert await site.replay(late) == "Completed"
    assert await site.came() == {late: again("a", "b")}


@pytest.mark.spec("replay.filter")
async def test_only_what_its_filter_lets_pass(site: ReplaySite) -> None:
    topic, _, start = await kept(site, "ax", "by", "cx")
    some = await site.subscribe(topic, "some.fifo", FilterPolicy='{"last":["x"]}')
    await site.ask(some, start)
    await site.replay(some)
    assert await site.came() == {some: again("ax", "cx")}


@pytest.mark.spec("replay.start", "replay.end")
async def test_from_the_start_inclusive_to_the_end_exclusive(site: ReplaySite) -> None:
    topic, arn, _ = await kept(site, "before")
    points: list[str] = []
    for text in ("first", "last", "after"):
        site.clock.advance(10)
        points.append(site.now_text())
        await site.publish(topic, text)
        site.clock.advance(10)
    await site.fan_out()
    await site.came()
    await site.ask(arn, points[0], points[2])
    assert await site.replay(arn) == "Completed"
    assert await site.came() == {arn: again("first", "last")}


@pytest.mark.spec("replay.ended", "replay.cancel")
async def test_with_an_end_live_delivery_rests_until_the_policy_is_removed(site: ReplaySite) -> None:
    topic, arn, start = await kept(site, "a")
    site.clock.advance(10)
    await site.ask(arn, start, site.now_text())
    assert await site.replay(arn) == "Completed"
    await site.publish(topic, "unheard")
    await site.fan_out()
    assert await site.came() == {arn: again("a")}
    await site.set_policy(arn, "")
    await site.publish(topic, "heard")
    await site.fan_out()
    assert await site.came() == {arn: live("heard")}
    assert await site.status(arn) == "none"


@pytest.mark.spec("replay.in-progress", "replay.completed")
async def test_an_end_to_come_is_waited_for(site: ReplaySite) -> None:
    topic, arn, start = await kept(site, "a")
    await site.ask(arn, start, site.now_text(3_600_000))
    assert await site.replay(arn) == "In progress"
    await site.publish(topic, "b")
    await site.fan_out()
    assert await site.replay(arn) == "In progress"
    site.clock.advance(3_600_000)
    assert await site.replay(arn) == "Completed"
    assert await site.came() == {arn: again("a", "b")}


@pytest.mark.spec("replay.cancel")
async def test_taken_back_it_ends_and_live_delivery_goes_on(site: ReplaySite) -> None:
    topic, arn, start = await kept(site, "a")
    await site.ask(arn, start)
    await site.set_policy(arn, "")
    await site.publish(topic, "b")
    await site.fan_out()
    assert await site.came() == {arn: live("b")}


@pytest.mark.spec("replay.failed", "archive.off-deletes")
async def test_an_archive_that_ends_fails_its_replays(site: ReplaySite) -> None:
    topic, arn, start = await kept(site, "a")
    await site.ask(arn, start)
    await site.rig("SetTopicAttributes", TopicArn=topic, AttributeName="ArchivePolicy", AttributeValue="{}")
    assert await site.replay(arn) == "Failed"
    await site.publish(topic, "b")
    await site.fan_out()
    assert await site.came() == {arn: live("b")}


async def test_without_its_subscription_it_is_forgotten(site: ReplaySite) -> None:
    _, arn, start = await kept(site, "a")
    await site.ask(arn, start)
    await site.rig.subscriptions.remove(arn)
    replay = await site.rig.replays.get(arn)
    assert replay is not None
    site.settle()
    assert not await site.replay_worker().step(replay)
    assert await site.rig.replays.active() == [replay]
    site.clock.advance(60_000)
    assert not await site.replay_worker().step(replay)
    assert await site.rig.replays.active() == []


async def test_a_standard_topic_keeps_in_the_commit_of_the_publish_and_replays_beside_live_delivery(
    site: ReplaySite,
) -> None:
    topic = await site.topic("standard")
    start = site.now_text()
    await site.publish(topic, "unheard")  # nobody had subscribed
    arn = await site.subscribe(topic, "q")
    await site.publish(topic, "a", "b")
    assert await site.came(jobs.ENDPOINT_JOBS) == {arn: live("a", "b")}
    site.clock.advance(10)
    await site.ask(arn, start)
    await site.publish(topic, "c")
    assert await site.replay(arn) == "Completed"
    came = (await site.came(jobs.ENDPOINT_JOBS))[arn]
    assert sorted(came) == sorted([*again("unheard", "a", "b"), *live("c")])
