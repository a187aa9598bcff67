"""One round of each kind that a single Cassandra node allows: `make faults` runs twenty, and rounds on a ring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.faults.cluster.kills import cluster_round
from lab.faults.cluster.plan import API, PARTITION, REDIS, REPLICA, WORKER, plan_cluster_round
from lab.faults.cluster.site import Site, site
from lab.faults.service.resources import RoundResources
from lab.harness.endpoints import running_receiver

ROUNDS = {REDIS: 2, WORKER: 7, API: 2}
"""Seeds of short rounds."""
LINKED_ROUNDS = {PARTITION: 11, REPLICA: 2}


@pytest.fixture(scope="module")
def cluster_under_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, RoundResources]]:
    directory = tmp_path_factory.mktemp("cluster")
    journal = directory / "arrivals"
    with running_receiver("--journal", str(journal)) as receiver, site(directory) as made:
        yield made, made.resources(receiver, journal)


@pytest.mark.parametrize("kind", ROUNDS)
async def test_a_cluster_loses_and_invents_nothing(cluster_under_test: tuple[Site, RoundResources], kind: str) -> None:
    result = await cluster_round(*cluster_under_test, plan_cluster_round(kind, ROUNDS[kind]))
    assert result.faults == []
    assert result.messages > 50
    assert result.notifications > 10
    assert result.in_order > 5


@pytest.mark.extended
async def test_a_partition_and_a_promoted_replica_repeat_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "arrivals"
    with running_receiver("--journal", str(journal)) as receiver, site(tmp_path, linked=True) as made:
        resources = made.resources(receiver, journal)
        for kind, seed in LINKED_ROUNDS.items():
            result = await cluster_round(made, resources, plan_cluster_round(kind, seed))
            assert result.faults == []
            assert result.messages > 50
            assert result.notifications > 10
