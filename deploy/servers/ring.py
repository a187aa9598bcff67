"""A ring of Cassandra nodes beside the single one, for tests that kill, pause and restart its nodes."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deploy.servers.cassandra import cassandra_server, ring_node
from deploy.servers.cql import select
from deploy.servers.daemon import wait_until
from deploy.servers.failure import Failure, tail
from deploy.servers.server import Server, start
from deploy.servers.settings import Settings

GOSSIP_LIMIT_S = 60.0
AGREE_LIMIT_S = 150.0
"""A node that has run for a minute waits for one before it asks another one for a schema."""
DATA = ("data", "commitlog", "hints", "saved_caches")
"""Directories of what a node stores."""
SITE_NAME = "site"
"""The file with the name of a node's data centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Nodes 1…N on 127.0.0.1 … 127.0.0.N, all on one port."""

    servers: tuple[Server, ...]

    def node(self, number: int) -> Server:
        if not 1 <= number <= len(self.servers):
            raise Failure(f"ring: there is no node {number}; `ring up` starts some")
        return self.servers[number - 1]

    def up(self) -> None:
        self.start(self.servers)

    def restart(self, number: int) -> None:
        self.node(number).stop()
        self.start([self.node(number)])

    def down(self) -> None:
        """Kill all nodes and delete their data."""
        for server in self.servers:
            server.daemon.kill()
            shutil.rmtree(server.directory)

    def start(self, servers: Sequence[Server]) -> None:
        """Start nodes; wait until every live node sees every other one with the same schema.

        A node may answer before it sees the others; a table created then would be unknown to them.
        """
        read = {server.name: _log_size(server) for server in self.servers}
        started = {server.name for server in start(servers)}
        live = [server for server in self.servers if server.is_running() and not server.daemon.is_paused()]
        for server in live:
            others = [other for other in live if other != server and {other.name, server.name} & started]
            _await_peers(server, others, read[server.name])
        if not wait_until(lambda: _has_one_schema(live), AGREE_LIMIT_S):
            raise Failure("ring: its nodes do not agree on the schema")


def nodes_of(settings: Settings, sites: Sequence[str]) -> Ring:
    """A ring with a node for each of these data centres, some of which may be the same."""
    nodes = [ring_node(settings, number, len(sites), site) for number, site in enumerate(sites, 1)]
    return Ring(servers=tuple(cassandra_server(node, settings) for node in nodes))


def present_ring(settings: Settings) -> Ring:
    """Return the ring that was started last; it has no nodes if there is none."""
    return nodes_of(settings, _present_sites(settings))


def ring_up(settings: Settings, sites: Sequence[str]) -> Ring:
    """Start a ring with a node for each of these data centres; running nodes are kept."""
    present = _present_sites(settings)
    if present and present != list(sites):
        raise Failure(f"ring: there is one of {len(present)} nodes in {', '.join(present)}; `ring down` ends it")
    ring = nodes_of(settings, sites)
    for server, site in zip(ring.servers, sites, strict=True):
        server.directory.mkdir(parents=True, exist_ok=True)
        (server.directory / SITE_NAME).write_text(site)
    ring.up()
    return ring


def replace_node(settings: Settings, number: int) -> None:
    """Kill a node, delete its data, and start it in its own place: it gets its data from the others."""
    ring, sites = present_ring(settings), _present_sites(settings)
    directory = ring.node(number).directory
    ring.node(number).daemon.kill()
    for name in DATA:
        shutil.rmtree(directory / name, ignore_errors=True)
    node = ring_node(settings, number, len(sites), sites[number - 1])
    ring.start([cassandra_server(replace(node, replaces=True), settings)])


def _present_sites(settings: Settings) -> list[str]:
    """The data centre of each node of the ring that was started last."""
    count = len(list(settings.state.glob("ring-*")))
    return [(settings.state / f"ring-{number}" / SITE_NAME).read_text() for number in range(1, count + 1)]


def _await_peers(server: Server, others: Sequence[Server], read: int) -> None:
    """Wait until the server's log, after its first `read` bytes, reports every other node as up."""
    wanted = {other.listens[0][0] for other in others}
    if not wait_until(lambda: wanted <= _peers_up(server, read), GOSSIP_LIMIT_S):
        missing = ", ".join(sorted(wanted - _peers_up(server, read)))
        raise Failure(f"{server.name}: does not see {missing}{tail(server.log)}")


def _peers_up(server: Server, read: int) -> set[str]:
    with server.log.open("rb") as log:
        log.seek(read)
        return set(re.findall(r"InetAddress /([\d.]+):\d+ is now UP", log.read().decode(errors="replace")))


def _has_one_schema(servers: Sequence[Server]) -> bool:
    """Return whether every server knows the schema versions of all others, and they are equal."""
    try:
        known = [_schema_versions(server) for server in servers]
    except OSError:
        return False
    hosts = [socket.inet_aton(server.listens[0][0]) for server in servers]
    versions = {by_host.get(host) for by_host in known for host in hosts}
    return len(versions) == 1 and None not in versions


def _schema_versions(server: Server) -> dict[bytes | None, bytes | None]:
    """Return the schema versions that a server knows, by host."""
    tables = (("rpc_address", "system.local"), ("peer", "system.peers"))
    statement = "SELECT {}, schema_version FROM {}".format
    return {host: version for table in tables for host, version in select(*server.listens[0], statement(*table))}


def _log_size(server: Server) -> int:
    return server.log.stat().st_size if server.log.exists() else 0
