"""Replays hand in hand with what is published meanwhile, and with workers that die: in order, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns.archives.model import ArchivedMessage
from cns.archives.replay import END_OF_ARCHIVE, Replay
from cns.delivery import jobs
from cns.notification import Notification
from cns.queue_port.contract import NewJob, QueuePort, Renewal
from cns.stores.contract import ArchiveStore, ReplayStore
from tests.integration.sns.archives.replay_site import ReplaySite, again, kept, live, open_site, texts
from tests.marks import extended
from workers.background.leased_tasks import LeasedTaskRunner


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ReplaySite]:
    async with open_site(tmp_path) as site:
        yield site


class Interrupted:
    """An archive store during whose nth page something happens: after it was read, before anybody has it."""

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


@pytest.mark.spec("replay.live")
@pytest.mark.parametrize("pages", [1, 4, *extended(2, 3, 5, 6)])
async def test_whenever_something_is_published_it_comes_once_and_in_order(site: ReplaySite, pages: int) -> None:
    """The replay stands still between any two of its steps while more is published and fanned out."""
    given = texts(150)
    topic, arn, start = await kept(site, *given)
    site.archives = interrupted = Interrupted(site.archives, pages)
    await site.ask(arn, start)
    replay = asyncio.create_task(site.replay(arn))
    reached = asyncio.create_task(interrupted.reached.wait())
    await asyncio.wait([replay, reached], return_when=asyncio.FIRST_COMPLETED)
    meanwhile = texts(12, "n")
    await site.publish(topic, *meanwhile)
    fan_out = asyncio.create_task(site.fan_out())
    await asyncio.wait([fan_out], timeout=0.3)  # it may have to wait for the replay
    interrupted.go_on.set()
    assert await replay == "Completed"
    await fan_out
    reached.cancel()
    came = (await site.came())[arn]
    assert [each.text for each in came] == [*given, *meanwhile]


@pytest.mark.parametrize("pages", [1, 5, *extended(2, 3, 4, 6, 7, 8)])
async def test_what_comes_into_the_archive_late_comes_once(site: ReplaySite, pages: int) -> None:
    """Its number is lower than those of other groups that were fanned out, and replayed, before it was."""
    topic = await site.topic()
    arn = await site.subscribe(topic)
    start = site.now_text()
    await site.publish(topic, "late", group="slow")
    (slow,) = await site.port.receive(jobs.FIFO_PUBLISH_JOBS, 1, 600_000, 0)
    given = texts(250)
    await site.publish(topic, *given)
    await site.fan_out(but=1)
    await site.came()
    site.archives = interrupted = Interrupted(site.archives, pages)
    await site.ask(arn, start)
    replay = asyncio.create_task(site.replay(arn))
    reached = asyncio.create_task(interrupted.reached.wait())
    await asyncio.wait([replay, reached], return_when=asyncio.FIRST_COMPLETED)
    await site.port.settle(jobs.FIFO_PUBLISH_JOBS, renewals=[Renewal(jobs.FIFO_PUBLISH_JOBS, slow.handle, 0)])
    fan_out = asyncio.create_task(site.fan_out())
    await asyncio.wait([fan_out], timeout=0.3)
    interrupted.go_on.set()
    assert await replay == "Completed"
    await fan_out
    reached.cancel()
    came = [each.text for each in (await site.came())[arn]]
    assert came.count("late") == 1
    assert [text for text in came if text != "late"] == given


async def test_no_more_is_sent_than_was_claimed(site: ReplaySite) -> None:
    """The fan-out believes that what is behind the claim is still to be read."""
    _, arn, start = await kept(site, "a", "b", "c")
    await site.ask(arn, start)
    site.settle()
    (replay,) = await site.rig.replays.active()
    kept_messages = await site.archives.page(replay.archive_id, 0, replay.set_ms + 1, "", 3)
    claimed = replace(replay, claimed=kept_messages[1].key, version=2)
    assert await site.rig.replays.replace(claimed, 1)
    assert await site.replay_worker().step(claimed)
    assert await site.came() == {arn: again("a", "b")}


async def test_what_is_behind_one_that_waits_waits_too(site: ReplaySite) -> None:
    """Even where the replay has sent its page between the two."""
    topic, arn, start = await kept(site, "a")
    await site.ask(arn, start)
    (replay,) = await site.rig.replays.active()
    sent = [
        replace(replay, claimed=END_OF_ARCHIVE),
        *[replace(replay, claimed=END_OF_ARCHIVE, sent=END_OF_ARCHIVE)] * 9,
    ]
    site.producer = site.fifo_producer(StubArchiver([{arn: each} for each in sent]))
    await site.publish(topic, "b", "c")
    await site.fan_out()
    assert await site.came() == {arn: live("b", "c")}


class StubArchiver:
    """Answers with the given replays, one after another."""

    def __init__(self, answers: list[dict[str, Replay]]) -> None:
        self._answers = answers

    async def append_and_find_replays(self, topic_arn: str, notification: Notification) -> dict[str, Replay]:
        return self._answers.pop(0)


@pytest.mark.spec("replay.live")
async def test_groups_that_go_at_different_speeds_keep_their_orders(site: ReplaySite) -> None:
    """Publishing, fan-out and replays all run: each group of each subscription gets all of it, once, in order."""
    topic = await site.topic()
    arns = [await site.subscribe(topic, f"{name}.fifo") for name in "xy"]
    start = site.now_text()
    groups = [f"group{number}" for number in range(5)]
    for number in range(40):
        await site.publish(topic, f"{groups[number % 5]} {number:04d}", group=groups[number % 5])
    await site.fan_out()
    await site.came()
    for arn in arns:
        await site.ask(arn, start)
    site.settle()
    runner = site.runner()
    working = asyncio.create_task(_until_over(site, runner, arns))
    for number in range(40, 160):
        await site.publish(topic, f"{groups[number % 5]} {number:04d}", group=groups[number % 5])
        if number % 7 == 0:
            await site.fan_out()
    await site.fan_out()
    async with asyncio.timeout(20):
        await working
    came = await site.came()
    for arn in arns:
        for group in groups:
            mine = [each.text for each in came[arn] if each.text.startswith(group)]
            assert mine == [f"{group} {number:04d}" for number in range(160) if groups[number % 5] == group]


async def _until_over(site: ReplaySite, runner: LeasedTaskRunner[Replay], arns: Sequence[str]) -> None:
    while [await site.status(arn) for arn in arns] != ["Completed"] * len(arns):
        await runner.step()
    await runner.close()


@pytest.mark.parametrize("dies_after", [1, 4, *extended(2, 3, 5, 6, 7)])
async def test_another_worker_goes_on_where_one_died(site: ReplaySite, dies_after: int) -> None:
    """Killed after its nth write to the queue or the record, before it hears of it."""
    given = texts(250)
    _, arn, start = await kept(site, *given)
    await site.ask(arn, start)
    site.settle()
    replay = await site.rig.replays.get(arn)
    assert replay is not None
    fuse = Fuse(dies_after)
    dying = site.replay_worker(DyingReplays(site.rig.replays, fuse), DyingPort(site.port, fuse))
    with pytest.raises(Killed):
        while await dying.step(replay):
            pass
    assert await site.replay(arn) == "Completed"
    assert await site.came() == {arn: again(*given)}


class Killed(Exception):
    pass


class Fuse:
    def __init__(self, writes: int) -> None:
        self._left = writes

    def burn(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise Killed


class DyingReplays:
    def __init__(self, store: ReplayStore, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse
        self.get = store.get

    async def replace(self, replay: Replay, expected_version: int) -> bool:
        replaced = await self._store.replace(replay, expected_version)
        self._fuse.burn()
        return replaced


class DyingPort:
    def __init__(self, port: QueuePort, fuse: Fuse) -> None:
        self._port = port
        self._fuse = fuse
        self.depth = port.depth

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None:
        await self._port.enqueue(new_jobs)
        self._fuse.burn()
