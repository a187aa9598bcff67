"""The queue engines by name, the value of a queue's `Engine` attribute.

A new engine is an entry in a table; an engine on Cassandra also has a function that opens it.

Embedded form: the store host opens the engines and serves them to the other processes. Cluster form: each process opens
all engines itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cns_common.metrics.model import Labels, Sample
from cns_common.sqlite.database import Database
from cqs.engines.contract import Capabilities, LocalEngine
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.internal_queues import check_internal_engine

if TYPE_CHECKING:  # its driver is installed in the cluster form only
    from cns_common.cassandra.session import Cassandra
    from cqs.engines.cassandra.clock_skew import ClockSkew


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServers:
    """The servers that the engines of the cluster form use."""

    cassandra: Cassandra
    redis_urls: str
    clock: Clock
    skew: ClockSkew
    keyspace: str
    maintained: bool = True
    """Whether the engines expire messages and clean up by themselves: not while `cns migrate` copies them. Its
    process is none of the living ones either, so that one that was killed keeps nobody waiting."""


class ClusterEngineKind(NamedTuple):
    """An engine of the cluster form."""

    open: Callable[[ClusterServers], AbstractAsyncContextManager[LocalEngine]]
    tables: tuple[str, ...]
    """The statements that create its tables, without those that engines on Cassandra share."""
    capabilities: Capabilities


def _cqs() -> ClusterEngineKind:
    from cqs.engines.cluster import ClusterEngine, fifo, open_engine, schema

    def open_(servers: ClusterServers) -> AbstractAsyncContextManager[LocalEngine]:
        prefix = f"cqs:{servers.keyspace}"
        if servers.cassandra.activation:  # keys of an earlier activation in this Redis are never read
            prefix += f":{servers.cassandra.activation}"
        return open_engine(
            servers.cassandra, servers.redis_urls, servers.clock, prefix, servers.skew, maintained=servers.maintained
        )

    return ClusterEngineKind(open_, (*schema.TABLES, *fifo.schema.TABLES), ClusterEngine.capabilities)


def _bdqs() -> ClusterEngineKind:
    from cqs.engines.bdqs import BdqsEngine, open_engine, schema

    def open_(servers: ClusterServers) -> AbstractAsyncContextManager[LocalEngine]:
        return open_engine(servers.cassandra, servers.clock, servers.skew)

    return ClusterEngineKind(open_, schema.TABLES, BdqsEngine.capabilities)


def _pipes() -> ClusterEngineKind:
    from cqs.engines.pipes import PipesEngine, open_engine, schema

    def open_(servers: ClusterServers) -> AbstractAsyncContextManager[LocalEngine]:
        return open_engine(servers.cassandra, servers.clock, servers.skew)

    return ClusterEngineKind(open_, schema.TABLES, PipesEngine.capabilities)


def _cassieq() -> ClusterEngineKind:
    from cqs.engines.cassieq import CassieqEngine, open_engine, schema

    def open_(servers: ClusterServers) -> AbstractAsyncContextManager[LocalEngine]:
        return open_engine(servers.cassandra, servers.clock, servers.skew)

    return ClusterEngineKind(open_, schema.TABLES, CassieqEngine.capabilities)


EMBEDDED_ENGINES: Mapping[str, Callable[[Database, Clock], LocalEngine]] = {
    "embedded": EmbeddedEngine,
}
DEFAULT_EMBEDDED_ENGINE = "embedded"

CLUSTER_ENGINES: Mapping[str, Callable[[], ClusterEngineKind]] = {
    "cqs": _cqs,
    "bdqs": _bdqs,
    "pipes": _pipes,
    "cassieq": _cassieq,
}
"""Each entry imports its engine when it is called: its drivers are installed in the cluster form only."""
DEFAULT_CLUSTER_ENGINE = "cqs"


class ChosenEngines(NamedTuple):
    """The names of the engines that the settings choose."""

    running: tuple[str, ...]
    default: str
    """The engine of queues whose CreateQueue names none."""
    internal: str
    """The engine of CNS's own queues."""


def choose_engines(settings: Settings, own: str, capabilities: Mapping[str, Capabilities]) -> ChosenEngines:
    """Choose among the engines of one form, which are the keys of `capabilities`. `own` is the default of the form.
    Raises StartError."""
    for name in settings.engines:
        _require("CNS_ENGINES", name, capabilities)
    running = settings.engines or tuple(capabilities)
    first = own if own in running else running[0]
    default, internal = settings.default_engine or first, settings.internal_engine or first
    _require("CNS_DEFAULT_ENGINE", default, running)
    _require("CNS_INTERNAL_ENGINE", internal, running)
    try:
        check_internal_engine(internal, capabilities[internal])
    except ValueError as error:
        raise _wrong("CNS_INTERNAL_ENGINE", internal, f"must be another: {error}") from None
    return ChosenEngines(running, default, internal)


def _require(setting: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        raise _wrong(setting, name, f"must be an engine that runs here: {', '.join(names)}")


def _wrong(setting: str, name: str, reason: str) -> StartError:
    return StartError(f"{setting}={name}: {reason}", EXIT_SETTINGS_WRONG)


class SampleSource(Protocol):
    def samples(self) -> list[Sample]: ...


def engine_samples(engines: Iterable[SampleSource]) -> list[Sample]:
    """The samples of all engines and of what they share. Samples of the same name and labels are summed."""
    totals: defaultdict[tuple[str, Labels], float] = defaultdict(float)
    for engine in engines:
        for sample in engine.samples():
            totals[(sample.name, sample.labels)] += sample.value
    return [Sample(name, value, labels) for (name, labels), value in totals.items()]
