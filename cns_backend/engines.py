"""The queue engines by name, the value of a queue's `Engine` attribute. A new engine is one line in one of the tables.

Embedded form: the store host opens its engines and serves them to the other processes. Cluster form: each process opens
all engines for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cns_common.clock import Clock
from cns_common.metrics.model import Labels, Sample
from cns_common.sqlite.database import Database
from cqs.engines.contract import LocalEngine
from cqs.engines.embedded import EmbeddedEngine

if TYPE_CHECKING:  # its driver is installed in the cluster form only
    from cns_common.cassandra.session import Cassandra


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServers:
    """The servers that the engines of the cluster form use."""

    cassandra: Cassandra
    redis_url: str
    clock: Clock
    keyspace: str


def _open_cqs(servers: ClusterServers) -> AbstractAsyncContextManager[LocalEngine]:
    from cqs.engines.cluster import open_engine  # its drivers are installed in the cluster form only

    return open_engine(servers.cassandra, servers.redis_url, servers.clock, prefix=f"cqs:{servers.keyspace}")


EMBEDDED_ENGINES: Mapping[str, Callable[[Database, Clock], LocalEngine]] = {
    "embedded": EmbeddedEngine,
}
DEFAULT_EMBEDDED_ENGINE = "embedded"

CLUSTER_ENGINES: Mapping[str, Callable[[ClusterServers], AbstractAsyncContextManager[LocalEngine]]] = {
    "cqs": _open_cqs,
}
DEFAULT_CLUSTER_ENGINE = "cqs"


def engine_samples(engines: Iterable[LocalEngine]) -> list[Sample]:
    """The samples of all engines; those of one name and labels are summed."""
    totals: defaultdict[tuple[str, Labels], float] = defaultdict(float)
    for engine in engines:
        for sample in engine.samples():
            totals[(sample.name, sample.labels)] += sample.value
    return [Sample(name, value, labels) for (name, labels), value in totals.items()]
