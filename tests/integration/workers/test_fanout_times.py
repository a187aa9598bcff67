"""The duration of a fan-out is counted once its jobs are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import PublishJob
from cns_backend.store_host import StoreHost
from cns_common.configuration.settings import Settings
from tests.integration.workers.drop_fixture import TOPIC, DropFixture, message


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[DropFixture]:
    host = StoreHost(Settings(data=tmp_path))
    host.database.start(asyncio.get_running_loop())
    await host.backend.topics.create(TOPIC)
    yield DropFixture(host.backend)
    await host.database.close()


async def test_a_fan_out_is_counted_by_its_queue(fixture: DropFixture) -> None:
    await fixture.subscribe()
    await fixture.put(jobs.PUBLISH_JOBS, PublishJob("m", TOPIC.arn, message(TOPIC)))
    await fixture.producer.step()
    assert await fixture.port.depth(jobs.ENDPOINT_JOBS) == 1
    counted = {(one.name, dict(one.labels)["queue"]): one.value for one in fixture.stats.fanouts.samples()}
    assert counted[("cns_fanout_seconds_count", jobs.PUBLISH_JOBS)] == 1
