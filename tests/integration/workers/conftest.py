"""Consumers on embedded stores, a worker's parts that may end a message, and delivery logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns_backend.store_host import StoreHost
from cns_common.configuration.settings import Settings
from tests.integration.sns.cns_support import Rig
from tests.integration.sns.mobile.sns_mobile import open_mobile
from tests.integration.workers.delivery_log_fixture import DeliveryLogFixture
from tests.integration.workers.drop_fixture import FIFO, TOPIC, DropFixture
from tests.integration.workers.embedded_context import embedded_context
from tests.integration.workers.fifo_host import TOPIC as FIFO_TOPIC
from tests.integration.workers.fifo_host import FifoHost, PreparedEndpoints
from tests.integration.workers.lane_host import LaneHost, lane_host


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[LaneHost]:
    async with lane_host(tmp_path) as found:
        yield found


@pytest.fixture
async def fifo(tmp_path: Path) -> AsyncIterator[FifoHost]:
    async with embedded_context(tmp_path, [FIFO_TOPIC]) as kept:
        yield FifoHost(**vars(kept), endpoints=PreparedEndpoints())


@pytest.fixture
async def arn(fifo: FifoHost) -> str:
    """The subscription of endpoint a."""
    return await fifo.subscribed("a")


@pytest.fixture
async def drops(tmp_path: Path) -> AsyncIterator[DropFixture]:
    host = StoreHost(Settings(data=tmp_path))
    host.database.start(asyncio.get_running_loop())
    for topic in (TOPIC, FIFO):
        await host.backend.topics.create(topic)
    yield DropFixture(host.backend)
    await host.database.close()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_mobile(tmp_path) as rig:
        yield rig


@pytest.fixture
async def logs(rig: Rig, tmp_path: Path) -> AsyncIterator[DeliveryLogFixture]:
    logs = DeliveryLogFixture(rig, tmp_path)
    yield logs
    await logs.log.close()
