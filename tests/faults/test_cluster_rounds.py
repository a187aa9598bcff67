"""One round of each kind that a single Cassandra node allows: `make faults` runs twenty, and rounds on a ring."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.faults.cluster.kills import cluster_round
from lab.faults.cluster.plan import API, PARTITION, REDIS, REPLICA, WORKER, plan_cluster_round
from lab.faults.cluster.processes import Site, site
from lab.faults.service.processes import receiving
from lab.faults.service.resources import RoundResources
from lab.harness.ports import free_port

ROUNDS = {REDIS: 2, WORKER: 7, API: 2}
"""Seeds of short rounds."""
LINKED_ROUNDS = {PARTITION: 11, REPLICA: 2}


@pytest.fixture(scope="module")
def cluster_under_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, RoundResources]]:
    directory = tmp_path_factory.mktemp("cluster")
    receiver_port, journal = free_port(), directory / "arrivals"
    with receiving(receiver_port, journal), site(directory) as made:
        yield made, asyncio.run(made.resources(receiver_port, journal))


@pytest.mark.parametrize("kind", ROUNDS)
async def test_a_cluster_loses_and_invents_nothing(cluster_under_test: tuple[Site, RoundResources], kind: str) -> None:
    result = await cluster_round(*cluster_under_test, plan_cluster_round(kind, ROUNDS[kind]))
    assert result.faults == []
    assert result.messages > 50
    assert result.notifications > 10
    assert result.in_order > 5


@pytest.mark.extended
async def test_a_partition_and_a_promoted_replica_repeat_nothing(tmp_path: Path) -> None:
    receiver_port, journal = free_port(), tmp_path / "arrivals"
    with receiving(receiver_port, journal), site(tmp_path, linked=True) as made:
        resources = await made.resources(receiver_port, journal)
        for kind, seed in LINKED_ROUNDS.items():
            result = await cluster_round(made, resources, plan_cluster_round(kind, seed))
            assert result.faults == []
            assert result.messages > 50
            assert result.notifications > 10
