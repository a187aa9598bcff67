"""Directories, addresses and ports of the servers, and the environment variables that change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.failure import Failure

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
LOOPBACK = "127.0.0.1"
NODES_MAX = 9

COMMIT_LOGS = {
    "periodic": "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms",
    "group": "commitlog_sync: group\ncommitlog_sync_group_window: 5ms",
    "batch": "commitlog_sync: batch",
}
"""When a write is on disk: up to 10 s after its answer, before it in groups, or before it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A Cassandra node uses the two ports after its own as well, for other nodes and for nodetool."""

    state: Path = BUILD / "servers"
    software: Path = BUILD / "cassandra"
    cassandra_port: int = 19042
    redis_port: int = 16379
    ring_port: int = 19142
    heap: str = "1G"
    commit_log: str = "periodic"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings: defaults, overridden by `CNS_SERVERS_…` variables."""
    default = Settings()
    commit_log = environment.get("CNS_SERVERS_COMMIT_LOG", default.commit_log)
    if commit_log not in COMMIT_LOGS:
        raise Failure(f"CNS_SERVERS_COMMIT_LOG is {commit_log!r}; it may be {', '.join(COMMIT_LOGS)}")
    return Settings(
        state=Path(environment.get("CNS_SERVERS_DIR", default.state)).resolve(),
        cassandra_port=_port(environment, "CNS_SERVERS_CASSANDRA_PORT", default.cassandra_port),
        redis_port=_port(environment, "CNS_SERVERS_REDIS_PORT", default.redis_port),
        ring_port=_port(environment, "CNS_SERVERS_RING_PORT", default.ring_port),
        heap=environment.get("CNS_SERVERS_HEAP", default.heap),
        commit_log=commit_log,
    )


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text) <= 65_000:
        raise Failure(f"{name} is {text!r}; it may be a port from 1024 to 65000")
    return int(text)
