"""The plan of a round of the cluster form: which process is killed or cut off, when and for how long; permitted
duplicates."""

from __future__ import annotations

from random import Random

import msgspec

from lab.faults.accounting.causes import (
    CLIENT_RETRY,
    CRASH_BEFORE_SETTLE,
    HIDING_LOST,
    LEASE_OVER,
    MOVE_CUT_OFF,
    SETTLEMENT_FAILED,
)

REDIS, WORKER, API, NODE = "cluster-redis", "cluster-worker", "cluster-api", "cluster-node"
PARTITION, REPLICA = "cluster-partition", "cluster-replica"
"""One process does not reach Redis, which all others do; a replica takes the place of a Redis that died."""
CLOCKS = "cluster-clocks"
"""The API processes are on machines whose clocks are wrong, one a minute behind and one a minute ahead."""
CLOCKS_WRONG_S = (-60, 60)
LINKED_KINDS = (PARTITION, REPLICA)
CLUSTER_KINDS = (REDIS, WORKER, API, NODE, CLOCKS, *LINKED_KINDS)
PERMITTED_CAUSES: dict[str, frozenset[str]] = {
    REDIS: frozenset({CLIENT_RETRY, LEASE_OVER, HIDING_LOST}),
    WORKER: frozenset({CLIENT_RETRY, LEASE_OVER, CRASH_BEFORE_SETTLE}),
    API: frozenset({CLIENT_RETRY, LEASE_OVER, MOVE_CUT_OFF}),
    NODE: frozenset({CLIENT_RETRY, LEASE_OVER, SETTLEMENT_FAILED, MOVE_CUT_OFF}),
    CLOCKS: frozenset({CLIENT_RETRY, LEASE_OVER}),
    PARTITION: frozenset({CLIENT_RETRY, LEASE_OVER}),
    REPLICA: frozenset({CLIENT_RETRY, LEASE_OVER}),
}
"""Causes of duplicates, by kind of round."""
VICTIM_COUNTS = {REDIS: 1, WORKER: 2, API: 2, NODE: 3, CLOCKS: 1, PARTITION: 4, REPLICA: 1}
"""The number of processes of the kind, one of which is killed, or cut off from Redis."""
KILL_AFTER_S = (0.5, 4.0)
"""The first dead letters are moved after two seconds."""
OUTAGE_S: dict[str, tuple[float, float]] = {
    REDIS: (0.0, 10.0),
    WORKER: (0.5, 3.0),
    API: (0.5, 3.0),
    NODE: (2.0, 10.0),
    CLOCKS: (5.0, 10.0),
    PARTITION: (0.5, 10.0),
    REPLICA: (0.0, 3.0),
}
"""From the kill until it is started again: shortest and longest."""


class ClusterPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Determined by its kind and seed."""

    kind: str
    seed: int
    victim: int  # which of its kind, from 0
    after_s: float  # of load
    outage_s: float

    @property
    def place(self) -> str:
        number = f" {self.victim + 1} of {VICTIM_COUNTS[self.kind]}" if VICTIM_COUNTS[self.kind] > 1 else ""
        return f"random time{number}, away for {self.outage_s:.1f} s"


def plan_cluster_round(kind: str, seed: int) -> ClusterPlan:
    random = Random(f"{kind}-{seed}")
    return ClusterPlan(
        kind=kind,
        seed=seed,
        victim=random.randrange(VICTIM_COUNTS[kind]),
        after_s=random.uniform(*KILL_AFTER_S),
        outage_s=random.uniform(*OUTAGE_S[kind]),
    )
