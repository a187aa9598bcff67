"""A few rounds of each kind, and proof that a round can fail: `make faults` runs fifty."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from cns_common.sqlite.database import Database
from lab.faults.power.rounds import power_round
from lab.faults.service.kills import VICTIMS, kill_round, plan_round, set_up
from lab.faults.service.resources import RoundResources
from lab.harness.endpoints import running_receiver

KILL_SEEDS = range(101, 104)
"""A random time and two named kill points; one of these belongs to a lane."""
POWER_SEEDS = range(101, 106)
SEEDS_OF_CORRUPTED = range(1, 6)
"""Rounds until each kind of fault was found: which one a cut brings depends on when the store wrote."""


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundResources]:
    directory = tmp_path_factory.mktemp("faults")
    journal = directory / "arrivals"
    with running_receiver("--journal", str(journal)) as receiver:
        yield asyncio.run(set_up(directory, receiver, journal))


@pytest.mark.parametrize("seed", KILL_SEEDS)
@pytest.mark.parametrize("kind", VICTIMS)
async def test_a_kill_loses_and_invents_nothing(resources: RoundResources, kind: str, seed: int) -> None:
    result = await kill_round(resources, plan_round(kind, seed))
    assert result.faults == []
    assert result.reached
    assert result.messages > 50
    assert result.notifications > 10
    assert result.in_order > 5
    assert result.failed > 0


@pytest.mark.parametrize("seed", POWER_SEEDS)
async def test_power_loss_keeps_what_was_acknowledged(seed: int) -> None:
    result = await power_round(seed)
    assert result.faults == []
    assert result.checkpoints > 5
    assert len(result.cuts) == 10  # the rounds cut at every kind of position


async def test_a_disk_that_lies_about_syncs_is_found_out() -> None:
    result = await power_round(1, syncs_count=False)
    assert _kinds(result.faults) >= {"lost", "state"}


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
async def test_a_store_that_does_not_sync_is_found_out(synchronous: str) -> None:
    def corrupt(database: Database) -> None:
        database.connection.execute(f"PRAGMA synchronous={synchronous}").fetchall()

    found: set[str] = set()
    for seed in SEEDS_OF_CORRUPTED:
        found |= _kinds((await power_round(seed, corrupt=corrupt)).faults)
        if found >= {"lost", "came back", "dedup"}:
            break
    assert found >= {"lost", "came back", "dedup"}


def _kinds(faults: list[str]) -> set[str]:
    return {fault.partition(":")[0] for fault in faults}
