"""What happens in a round of the cluster form: which part falls, when and for how long; what may come twice then."""

from __future__ import annotations

from random import Random

import msgspec

from faults.accounting.causes import (
    CLIENT_RETRY,
    CRASH_BEFORE_SETTLE,
    HIDING_LOST,
    LEASE_OVER,
    MOVE_CUT_OFF,
    SETTLEMENT_FAILED,
)

REDIS, WORKER, API, NODE = "cluster-redis", "cluster-worker", "cluster-api", "cluster-node"
CLUSTER_KINDS = (REDIS, WORKER, API, NODE)
ACCEPTED: dict[str, frozenset[str]] = {
    REDIS: frozenset({CLIENT_RETRY, LEASE_OVER, HIDING_LOST}),
    WORKER: frozenset({CLIENT_RETRY, LEASE_OVER, CRASH_BEFORE_SETTLE}),
    API: frozenset({CLIENT_RETRY, LEASE_OVER, MOVE_CUT_OFF}),
    NODE: frozenset({CLIENT_RETRY, LEASE_OVER, SETTLEMENT_FAILED, MOVE_CUT_OFF}),
}
"""Causes of duplicates."""
OF = {REDIS: 1, WORKER: 2, API: 2, NODE: 3}
"""How many of the kind there are, of which one falls."""
KILL_AFTER_S = (0.5, 4.0)
"""The first dead letters are moved after two seconds."""
AWAY_S: dict[str, tuple[float, float]] = {REDIS: (0.0, 10.0), WORKER: (0.5, 3.0), API: (0.5, 3.0), NODE: (2.0, 10.0)}
"""From the kill until it is started again: shortest and longest."""


class ClusterPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Follows from its kind and seed alone."""

    kind: str
    seed: int
    victim: int  # which of its kind, from 0
    after_s: float  # of load
    away_s: float

    @property
    def place(self) -> str:
        number = f" {self.victim + 1} of {OF[self.kind]}" if OF[self.kind] > 1 else ""
        return f"random time{number}, away for {self.away_s:.1f} s"


def plan_cluster_round(kind: str, seed: int) -> ClusterPlan:
    random = Random(f"{kind}-{seed}")
    return ClusterPlan(
        kind=kind,
        seed=seed,
        victim=random.randrange(OF[kind]),
        after_s=random.uniform(*KILL_AFTER_S),
        away_s=random.uniform(*AWAY_S[kind]),
    )
