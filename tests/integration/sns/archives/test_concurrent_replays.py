"""Replays during publishing and with workers that die: each message arrives once and in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cns.archives.model import ArchivedMessage
from cns.archives.replay import END_OF_ARCHIVE, Replay
from cns.archives.replay_worker import QUEUE_DEPTH_MAX
from cns.delivery import jobs
from cns.notification import Notification
from cns.queue_port.contract import NewJob, QueuePort, Renewal
from cns.stores.contract import ArchiveStore, ReplayStore
from cns_workers.background.leased_tasks import LeasedTaskRunner
from lab.harness.waiting import PATIENCE_S
from tests.integration.sns.archives.replay_fixture import (
    ReplayFixture,
    archive_texts,
    live_texts,
    numbered_texts,
    replayed_texts,
)
from tests.marks import extended


class PausingArchive:
    """An archive store that reads its nth page, then waits for `go_on` before it returns the page."""

    def __init__(self, store: ArchiveStore, pages: int) -> None:
        self._store = store
        self._pages = pages
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def page(self, archive_id: str, from_ms: int, until_ms: int, after: str, n: int) -> Sequence[ArchivedMessage]:
        found = await self._store.page(archive_id, from_ms, until_ms, after, n)
        self._pages -= 1
        if not self._pages:
            self.reached.set()
            await self.go_on.wait()
        return found


async def texts_of_a_paused_replay(
    site: ReplayFixture, arn: str, start: str, pages: int, meanwhile: Callable[[], Awaitable[object]]
) -> list[str]:
    """Replay with a pause after so many pages, in which something happens and a fan-out begins. Returns the texts."""
    site.archives = pausing = PausingArchive(site.archives, pages)
    await site.start_replay(arn, start)
    replay = asyncio.create_task(site.replay(arn))
    reached = asyncio.create_task(pausing.reached.wait())
    await asyncio.wait([replay, reached], return_when=asyncio.FIRST_COMPLETED)
    await meanwhile()
    fan_out = asyncio.create_task(site.fan_out())
    await asyncio.wait([fan_out], timeout=0.3)  # the fan-out may have to wait for the replay
    pausing.go_on.set()
    assert await replay == "Completed"
    await fan_out
    reached.cancel()
    return [each.text for each in (await site.take_queued())[arn]]


@pytest.mark.spec("replay.live")
@pytest.mark.parametrize("pages", [4, *extended(1, 2, 3, 5, 6)])
async def test_messages_published_during_a_replay_come_once_and_in_order(site: ReplayFixture, pages: int) -> None:
    published, later = numbered_texts(150), numbered_texts(12, "n")
    topic, arn, start = await archive_texts(site, *published)
    texts = await texts_of_a_paused_replay(site, arn, start, pages, lambda: site.publish(topic, *later))
    assert texts == [*published, *later]


@pytest.mark.parametrize("pages", [5, *extended(1, 2, 3, 4, 6, 7, 8)])
async def test_a_message_archived_late_comes_once(site: ReplayFixture, pages: int) -> None:
    """The late message has a lower number than messages of other groups that were fanned out and replayed before it."""
    topic = await site.topic()
    arn = await site.subscribe(topic)
    start = site.now_text()
    await site.publish(topic, "late", group="slow")
    (slow,) = await site.port.receive(jobs.FIFO_PUBLISH_JOBS, 1, 600_000, 0)
    published = numbered_texts(250)
    await site.publish(topic, *published)
    await site.fan_out(leave=1)
    await site.take_queued()
    at_once = Renewal(jobs.FIFO_PUBLISH_JOBS, slow.handle, 0)
    queued = await texts_of_a_paused_replay(
        site, arn, start, pages, lambda: site.port.settle(jobs.FIFO_PUBLISH_JOBS, renewals=[at_once])
    )
    assert queued.count("late") == 1
    assert [text for text in queued if text != "late"] == published


async def test_a_replay_sends_no_more_than_its_claim(site: ReplayFixture) -> None:
    """The fan-out relies on the replay reading everything behind its claim later."""
    _, arn, start = await archive_texts(site, "a", "b", "c")
    await site.start_replay(arn, start)
    site.pass_start_delay()
    (replay,) = await site.rig.replays.active()
    kept_messages = await site.archives.page(replay.archive_id, 0, replay.set_ms + 1, "", 3)
    claimed = replace(replay, claimed=kept_messages[1].key, version=2)
    assert await site.rig.replays.replace(claimed, 1)
    assert await site.replay_worker().step(claimed)
    assert await site.take_queued() == {arn: replayed_texts("a", "b")}


async def test_messages_behind_a_waiting_one_wait_too(site: ReplayFixture) -> None:
    """This holds even if the replay sends its page between the two."""
    topic, arn, start = await archive_texts(site, "a")
    await site.start_replay(arn, start)
    (replay,) = await site.rig.replays.active()
    sent = [
        replace(replay, claimed=END_OF_ARCHIVE),
        *[replace(replay, claimed=END_OF_ARCHIVE, sent=END_OF_ARCHIVE)] * 9,
    ]
    site.producer = site.fifo_producer(StubArchiver([{arn: each} for each in sent]))
    await site.publish(topic, "b", "c")
    await site.fan_out()
    assert await site.take_queued() == {arn: live_texts("b", "c")}


@pytest.mark.spec("replay.live")
async def test_a_page_that_is_claimed_is_sent_however_many_jobs_wait(site: ReplayFixture) -> None:
    """New messages of the topic wait for it: those of all its subscriptions."""
    topic, arn, start = await archive_texts(site, "a")
    other = await site.subscribe(topic, "other.fifo")
    await site.start_replay(arn, start)
    site.pass_start_delay()
    (replay,) = await site.rig.replays.active()
    assert await site.replay_worker().step(replay), "the page is claimed"
    worker = site.replay_worker(port=FullPort(site.port))
    while await worker.step(replay):
        pass
    assert await site.status(arn) == "Completed"
    await site.publish(topic, "b")
    await site.fan_out()
    assert await site.take_queued() == {arn: [*replayed_texts("a"), *live_texts("b")], other: live_texts("b")}
    await site.start_replay(arn, start)
    site.pass_start_delay()
    (replay,) = await site.rig.replays.active()
    assert not await worker.step(replay), "none is claimed"
    assert await site.status(arn) == "Pending"


@pytest.mark.spec("replay.live", "replay.at-subscribe")
@pytest.mark.parametrize("statement", ["archive", "subscriptions", "replays"])
async def test_a_subscriber_that_comes_during_a_fan_out_gets_the_message_from_its_replay(
    site: ReplayFixture, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """The subscription is made after the nth statement of the fan-out: it has the message once, behind earlier ones."""
    topic = await site.topic()
    start = site.now_text()
    await site.publish(topic, "a")
    await site.fan_out()
    rig, arns = site.rig, list[str]()
    store, name = {
        "archive": (rig.archives, "append"),
        "subscriptions": (rig.subscriptions, "audience"),
        "replays": (rig.replays, "of_topic"),
    }[statement]
    read = getattr(store, name)

    async def then_subscribe(*arguments: Any) -> Any:
        found = await read(*arguments)
        monkeypatch.setattr(store, name, read)
        policy = json.dumps({"PointType": "Timestamp", "StartingPoint": start})
        arns.append(await site.subscribe(topic, ReplayPolicy=policy))
        return found

    monkeypatch.setattr(store, name, then_subscribe)
    await site.publish(topic, "b")
    await site.fan_out()
    (arn,) = arns
    assert await site.replay(arn) == "Completed"
    await site.publish(topic, "c")
    await site.fan_out()
    assert await site.take_queued() == {arn: [*replayed_texts("a", "b"), *live_texts("c")]}


class StubArchiver:
    """Returns the given replays, one after another."""

    def __init__(self, answers: list[dict[str, Replay]]) -> None:
        self._answers = answers

    async def append_of_fifo(self, topic_arn: str, notification: Notification, accepted_ms: int) -> str:
        return "archive"

    async def find_replays(self, topic_arn: str, archive_id: str) -> dict[str, Replay]:
        return self._answers.pop(0)


@pytest.mark.spec("replay.live")
async def test_groups_at_different_speeds_keep_their_order(site: ReplayFixture) -> None:
    """Publishing, fan-out and replays run at once: each subscription gets each group completely, once and in order."""
    topic = await site.topic()
    arns = [await site.subscribe(topic, f"{name}.fifo") for name in "xy"]
    start = site.now_text()
    groups = [f"group{number}" for number in range(5)]
    for number in range(40):
        await site.publish(topic, f"{groups[number % 5]} {number:04d}", group=groups[number % 5])
    await site.fan_out()
    await site.take_queued()
    for arn in arns:
        await site.start_replay(arn, start)
    site.pass_start_delay()
    runner = site.runner()
    stepping = asyncio.create_task(_step_until_completed(site, runner, arns))
    for number in range(40, 160):
        await site.publish(topic, f"{groups[number % 5]} {number:04d}", group=groups[number % 5])
        if number % 7 == 0:
            await site.fan_out()
    await site.fan_out()
    async with asyncio.timeout(PATIENCE_S):
        await stepping
    queued = await site.take_queued()
    for arn in arns:
        for group in groups:
            mine = [each.text for each in queued[arn] if each.text.startswith(group)]
            assert mine == [f"{group} {number:04d}" for number in range(160) if groups[number % 5] == group]


async def _step_until_completed(site: ReplayFixture, runner: LeasedTaskRunner[Replay], arns: Sequence[str]) -> None:
    while [await site.status(arn) for arn in arns] != ["Completed"] * len(arns):
        await runner.step()
    await runner.close()


@pytest.mark.parametrize("dies_after", [4, *extended(1, 2, 3, 5, 6, 7)])
async def test_another_worker_continues_after_a_kill(site: ReplayFixture, dies_after: int) -> None:
    """A worker is killed after its nth write to the queue or the record, before it gets the answer."""
    published = numbered_texts(250)
    _, arn, start = await archive_texts(site, *published)
    await site.start_replay(arn, start)
    site.pass_start_delay()
    replay = await site.rig.replays.get(arn)
    assert replay is not None
    write_limit = WriteLimit(dies_after)
    limited_worker = site.replay_worker(
        LimitedReplayStore(site.rig.replays, write_limit), LimitedPort(site.port, write_limit)
    )
    with pytest.raises(WorkerKilled):
        while await limited_worker.step(replay):
            pass
    assert await site.replay(arn) == "Completed"
    assert await site.take_queued() == {arn: replayed_texts(*published)}


class WorkerKilled(Exception):
    pass


class WriteLimit:
    def __init__(self, writes: int) -> None:
        self._left = writes

    def count_write(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise WorkerKilled


class LimitedReplayStore:
    def __init__(self, store: ReplayStore, write_limit: WriteLimit) -> None:
        self._store = store
        self._write_limit = write_limit
        self.get = store.get

    async def replace(self, replay: Replay, expected_version: int) -> bool:
        replaced = await self._store.replace(replay, expected_version)
        self._write_limit.count_write()
        return replaced


class FullPort:
    """Has room for jobs, but says that it has too many."""

    def __init__(self, port: QueuePort) -> None:
        self.enqueue = port.enqueue

    async def depth(self, queue: str) -> int:
        return QUEUE_DEPTH_MAX


class LimitedPort:
    def __init__(self, port: QueuePort, write_limit: WriteLimit) -> None:
        self._port = port
        self._write_limit = write_limit
        self.depth = port.depth

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None:
        await self._port.enqueue(new_jobs)
        self._write_limit.count_write()
