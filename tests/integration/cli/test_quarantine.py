"""`cns quarantine` lists, shows and releases quarantined jobs, with the service stopped and running."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from cns.delivery import jobs
from cns.delivery.jobs import PublishJob
from cns.notification import Notification
from cns.queue_port.contract import NewJob
from cns.queue_port.inline import InlineQueuePort
from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cns_workers.jobs.quarantine import Quarantine
from cns_workers.stats import Stats
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.harness.running import cns, running
from lab.harness.waiting import wait_until
from tests.integration.workers.embedded_context import no_queue

TOPIC = "arn:aws:sns:us-east-1:111111111111:t"
NEWER = b"\x93\xa5later\x01\x02"
LEASE_MS = 30_000

Result = TypeVar("Result")


def run_on_data(data: Path, work: Callable[[InlineQueuePort, Clock], Awaitable[Result]]) -> Result:
    """Run `work` on the data of a stopped service."""

    async def run() -> Result:
        clock = Clock()
        database = Database(data, clock)
        database.start(asyncio.get_running_loop())
        try:
            return await work(InlineQueuePort(EmbeddedEngine(database, clock), clock, no_queue), clock)
        finally:
            await database.close()

    return asyncio.run(run())


async def quarantine_two_jobs(port: InlineQueuePort, clock: Clock) -> None:
    """Quarantine a job that can be decoded, and one that cannot."""
    quarantine = Quarantine(port, EmbeddedLeaseStore(), clock, Stats())
    notification = Notification(id="n", topic_arn=TOPIC, timestamp_ms=1, texts={"default": "hello"})
    readable = jobs.encode(PublishJob("n", TOPIC, notification))
    await port.enqueue(
        [NewJob(jobs.PUBLISH_JOBS, "readable", readable, TOPIC), NewJob(jobs.PUBLISH_JOBS, "newer", NEWER, TOPIC)]
    )
    for held in await port.receive(jobs.PUBLISH_JOBS, 10, LEASE_MS, 0):
        await quarantine.add(jobs.PUBLISH_JOBS, held, TOPIC, f"why {held.id}")


async def depths(port: InlineQueuePort, _: Clock) -> tuple[int, int]:
    return await port.depth(jobs.QUARANTINE), await port.depth(jobs.PUBLISH_JOBS)


async def bodies(port: InlineQueuePort, _: Clock) -> set[bytes]:
    return {held.body for held in await port.receive(jobs.PUBLISH_JOBS, 10, 0, 0)}


def list_items(data: Path) -> dict[str, str]:
    """The ids of the listed items, by their reason."""
    lines = cns("quarantine", "list", "--data", data).stdout.splitlines()
    return {line.rpartition("  ")[2]: line.split()[0] for line in lines}


def test_with_the_service_stopped(tmp_path: Path) -> None:
    run_on_data(tmp_path, quarantine_two_jobs)
    items = list_items(tmp_path)
    assert set(items) == {"why readable", "why newer"}
    text_shown = cns("quarantine", "show", items["why readable"], "--data", tmp_path).stdout
    for text in ("queue: publish-jobs", "job: readable", f"topic: {TOPIC}", "why: why readable", '"hello"'):
        assert text in text_shown
    assert NEWER.hex() in cns("quarantine", "show", items["why newer"], "--data", tmp_path).stdout
    assert run_on_data(tmp_path, depths) == (2, 0), "list and show remove nothing"

    assert cns("quarantine", "release", items["why newer"], "--data", tmp_path).stdout == "1 put back\n"
    assert run_on_data(tmp_path, depths) == (1, 1)
    assert run_on_data(tmp_path, bodies) == {NEWER}
    assert cns("quarantine", "release", "all", "--data", tmp_path).stdout == "1 put back\n"
    assert run_on_data(tmp_path, depths) == (0, 2)


def test_an_unknown_item(tmp_path: Path) -> None:
    run_on_data(tmp_path, depths)
    for words in (("show", "nothing"), ("release", "nothing")):
        refused = cns("quarantine", *words, "--data", tmp_path, check=False)
        assert (refused.returncode, refused.stderr) == (1, "cns: there is no nothing in quarantine\n")
    assert cns("quarantine", "list", "--data", tmp_path).stdout == ""
    assert cns("quarantine", "release", "all", "--data", tmp_path).stdout == "0 put back\n"


def test_with_the_service_running(tmp_path: Path) -> None:
    """The worker runs a released job. Health reports the jobs still in quarantine."""
    data = tmp_path / "data"
    data.mkdir()
    run_on_data(data, quarantine_two_jobs)
    with running(data) as service:
        items = list_items(data)
        wait_until(lambda: "jobs are in quarantine" in service.health()["reasons"], service.said)
        service.cns("quarantine", "release", items["why readable"])
        assert set(list_items(data)) == {"why newer"}
    assert run_on_data(data, depths) == (1, 0), "the job is done: its topic has no subscriptions"
