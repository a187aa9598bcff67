"""Steps of the machine's clock, as processes and callers of the service see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cns_backend.store_client import StoreClient
from cns_backend.store_host import StoreHost
from cns_common.configuration.settings import Settings
from cns_server.health import judge_health
from tests.integration.cqs.door import open_door
from tests.integration.cqs.sqs import open_sqs
from tests.machine_clocks import MachineClocks

HOUR_NS = 3_600 * 1_000_000_000


@pytest.fixture
def machine() -> MachineClocks:
    return MachineClocks()


@pytest.fixture
def settings(tmp_path: Path, machine: MachineClocks, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a service whose processes use the clocks of `machine`."""
    monkeypatch.setattr("cns_backend.store_host.Clock", machine.clock)
    monkeypatch.setattr("cns_backend.store_client.Clock", machine.clock)
    return Settings(data=tmp_path)


@pytest.fixture
async def host(settings: Settings) -> AsyncIterator[StoreHost]:
    host = StoreHost(settings)
    await host.start()
    yield host
    await host.close()


@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS])
async def test_signatures_are_checked_by_the_present_wall_clock(
    tmp_path: Path, machine: MachineClocks, by_ns: int
) -> None:
    async with open_sqs(tmp_path, machine.clock()) as sqs, open_door(sqs) as door:
        before_ms = machine.wall_ns // 1_000_000
        machine.step(by_ns)
        now: dict[str, Any] = {"at_ms": machine.wall_ns // 1_000_000}
        assert (await door.query("ListQueues", **now)).status == 200
        assert (await door.query("ListQueues", at_ms=before_ms)).status == 403


async def test_the_test_clock_does_not_move_signatures(tmp_path: Path, machine: MachineClocks) -> None:
    async with open_sqs(tmp_path, machine.clock(test=True)) as sqs, open_door(sqs) as door:
        sqs.clock.advance(3_600_000)
        assert (await door.query("ListQueues", at_ms=machine.wall_ns // 1_000_000)).status == 200


async def test_every_process_follows_a_step_forward(
    machine: MachineClocks, settings: Settings, host: StoreHost
) -> None:
    client = StoreClient(settings)
    await client.start()
    machine.step(HOUR_NS)
    assert client.clock.now_ms() == host.backend.clock.now_ms() == machine.wall_ns // 1_000_000
    await client.close()


async def test_a_process_started_after_a_step_back_has_the_time_of_the_others(
    machine: MachineClocks, settings: Settings, host: StoreHost
) -> None:
    before_ms = host.backend.clock.now_ms()
    machine.step(-HOUR_NS)
    client = StoreClient(settings)
    await client.start()
    assert client.clock.now_ms() == host.backend.clock.now_ms() == before_ms
    await client.close()


@pytest.mark.parametrize(
    ("by_ns", "reason"),
    [
        (HOUR_NS, "the wall clock stepped forward by 3600 s within the last hour"),
        (-HOUR_NS, "the wall clock is 3600 s behind the time of messages"),
    ],
)
async def test_health_is_yellow_after_a_step(
    machine: MachineClocks, settings: Settings, host: StoreHost, by_ns: int, reason: str
) -> None:
    assert (await host.backend.control.state()).clock_warning == ""
    machine.step(by_ns)
    health = judge_health(await host.backend.control.state(), settings.data)
    assert reason in health.reasons
    assert health.reasons == ("no worker reports: nothing is delivered", reason), "the clock alone is no reason for red"
