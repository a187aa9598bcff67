"""Real Cassandra and Redis for tests: those that the environment names, else those of `deploy/servers`, started here.

Many tests share a server, so each keeps to a keyspace (`fresh_keyspace`) or a key prefix of its own. Without a server a
test fails; `lab.harness.parts` says when it is not run instead.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import redis

from cns_pytest.processes import exports
from deploy.servers.software import PACKAGES
from lab.harness.parts import need

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = {"cassandra": "CNS_CASSANDRA", "redis": "CNS_REDIS"}
PORTS = {"cassandra": 9042, "redis": 6379}
"""Ports of addresses that name none."""
START_S = 600.0
"""The very first start fetches packages and jars."""
CONNECT_S = 5.0
FLUSH_KEYS = 1_000
_GLOB = re.compile(r"([*?\[\]^\\-])")

Address = tuple[str, int]


def cassandra_address() -> Address:
    """The address of a node that answers."""
    return _addresses("cassandra", _running("cassandra"))[0]


def redis_url() -> str:
    """The URL of a server that answers."""
    return _running("redis")


@functools.cache
def program(name: str) -> str:
    """The path of HAProxy, Exim or Chromium, installed first if need be."""
    need(name)
    _servers("install", name)
    found = PACKAGES[name][1]()
    assert isinstance(found, str)
    return found


def fresh_keyspace() -> str:
    """An unused name of a keyspace. The caller that creates it drops it."""
    return f"test_{uuid.uuid4().hex[:12]}"


def fresh_prefix() -> str:
    """A prefix for all keys of one test."""
    return f"test:{uuid.uuid4().hex[:12]}:"


def flush_prefix(client: redis.Redis, prefix: str) -> None:
    """Delete all keys with this prefix."""
    for key in client.scan_iter(match=_GLOB.sub(r"\\\1", prefix) + "*", count=FLUSH_KEYS):
        client.delete(key)


def names_to_start(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The servers for which the environment names no address."""
    return [name for name, variable in VARIABLES.items() if not environment.get(variable)]


def running(names: list[str]) -> set[str]:
    """The servers of `deploy/servers` that run now."""
    return {name for name in names if _servers("status", name, check=False).returncode == 0}


def stop(names: set[str]) -> None:
    """Stop these servers; a later `cassandra_address` or `redis_url` starts them again."""
    if names:
        _servers("down", *sorted(names))
        _running.cache_clear()


class Ring:
    """Cassandra nodes in a ring of their own, for tests that kill or pause them. Its data go with it.

    `nodes` are in each data centre of `sites`, or in a single one.
    """

    def __init__(self, nodes: int = 3, sites: Sequence[str] = ()) -> None:
        self.nodes = nodes
        self.sites = sites
        self.addresses: list[Address] = []

    def start(self) -> None:
        """Start the nodes. Returns when each answers and sees the others."""
        words = ["ring", "up", str(self.nodes), *(["--sites", *self.sites] if self.sites else [])]
        self.addresses = _addresses("cassandra", _exported("cassandra", *words))

    def stop(self) -> None:
        _servers("ring", "down")

    def kill(self, number: int) -> None:
        """Send SIGKILL to a node. Returns when the process is gone."""
        _servers("kill", str(number))

    def pause(self, number: int) -> None:
        """Stop a node's process: its sockets stay open and nothing answers."""
        _servers("pause", str(number))

    def resume(self, number: int) -> None:
        _servers("resume", str(number))

    def restart(self, number: int) -> None:
        """Start a node again on its data. Returns when the ring has it back."""
        _servers("restart", str(number))

    def replace(self, number: int) -> None:
        """Start a node without the data it had. Returns when the others have given it theirs."""
        _servers("replace", str(number))

    def nodetool(self, number: int, *words: str) -> None:
        """Run Cassandra's own tool on a node."""
        _servers("nodetool", "--ring", str(number), *words)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@functools.cache
def _running(name: str) -> str:
    """The value of this server's variable. Without one, start the server of `deploy/servers`."""
    need(name)
    named = os.environ.get(VARIABLES[name]) or _exported(name, "up", name)
    host, port = _addresses(name, named)[0]
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        raise AssertionError(f"no {name} at {host}:{port}, where {VARIABLES[name]} says it is: {error}") from error
    return named


def _addresses(name: str, text: str) -> list[Address]:
    """Addresses in a list of host:port, or in a URL."""
    hosts = [urlsplit(part if "//" in part else f"//{part}") for part in text.split(",")]
    return [(host.hostname or "localhost", host.port or PORTS[name]) for host in hosts]


def _exported(name: str, *words: str) -> str:
    """The export line that a command prints for this server."""
    return exports(_servers(*words).stdout)[VARIABLES[name]]


def _servers(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of `deploy/servers` in another process, so that the servers are no children of the tests."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.servers", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=START_S,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"deploy/servers {' '.join(words)}: {done.stderr}")
    return done
