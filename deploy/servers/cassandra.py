"""A Cassandra node: its configuration file, its command line, and nodetool."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import NoReturn

from deploy.servers.server import Server
from deploy.servers.settings import COMMIT_LOGS, HERE, LOOPBACK, NODES_MAX, Settings
from deploy.servers.software import Cassandra, cassandra

START_LIMIT_S = 1_200.0
TOKENS = 2**64
DATA_CENTRE = "datacenter1"
SITE_FILE = "cassandra-rackdc.properties"
"""The node's data centre and rack, for other nodes."""
LOGGING = f"-Dlogback.configurationFile=file:{HERE}/logback.xml"

# CQL, protocol 4: the request OPTIONS, and how the head of its answer SUPPORTED begins
OPTIONS = bytes([4, 0, 0, 0, 5, 0, 0, 0, 0])
SUPPORTED = bytes([0x84, 0, 0, 0, 6])


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Node `number`, from 1, of the cluster on `hosts`."""

    name: str
    number: int
    hosts: tuple[str, ...]
    port: int
    directory: Path
    site: str = DATA_CENTRE
    """Its data centre."""
    replaces: bool = False
    """Whether it takes the place of a node at its address whose data are gone: the others stream them to it."""

    @property
    def host(self) -> str:
        return self.hosts[self.number - 1]

    @property
    def storage_port(self) -> int:
        return self.port + 1

    @property
    def jmx_port(self) -> int:
        """On 127.0.0.1 for every node, so each has its own."""
        return self.port + 1 + self.number

    @property
    def token(self) -> int:
        """The middle of the node's share, because the ends of the range are special."""
        return TOKENS * (2 * self.number - 1) // (2 * len(self.hosts)) - TOKENS // 2


def single_node(settings: Settings) -> Node:
    directory = settings.state / "cassandra"
    return Node(name="cassandra", number=1, hosts=(LOOPBACK,), port=settings.cassandra_port, directory=directory)


def ring_node(settings: Settings, number: int, count: int = NODES_MAX, site: str = DATA_CENTRE) -> Node:
    """Return one of `count` nodes on 127.0.0.1, 127.0.0.2 and so on."""
    return Node(
        name=f"ring-{number}",
        number=number,
        hosts=tuple(f"127.0.0.{host}" for host in range(1, count + 1)),
        port=settings.ring_port,
        directory=settings.state / f"ring-{number}",
        site=site,
    )


def cassandra_server(node: Node, settings: Settings) -> Server:
    """Return the server of a node. An orderly stop of the single node writes the class archive for faster starts."""
    single = len(node.hosts) == 1

    return Server(
        name=node.name,
        directory=node.directory,
        listens=((node.host, node.port), (node.host, node.storage_port), (LOOPBACK, node.jmx_port)),
        port_variable="CNS_SERVERS_CASSANDRA_PORT" if single else "CNS_SERVERS_RING_PORT",
        question=OPTIONS,
        answer=SUPPORTED,
        start_limit_s=START_LIMIT_S,
        command=lambda: node_command(node, settings, record_classes=single),
        on_stopped=lambda: _activate_archive(cassandra(settings.software)),
    )


def node_command(node: Node, settings: Settings, *, record_classes: bool) -> list[str]:
    """Write the configuration file; return the command that runs the node in the foreground."""
    software = cassandra(settings.software)
    (node.directory / "cassandra.yaml").write_text(_configuration(node, settings))
    (node.directory / SITE_FILE).write_text(f"dc={node.site}\nrack=rack1\n")
    return [*_java(software, settings), *_classes(software, record=record_classes), *_daemon(node)]


def exec_nodetool(node: Node, settings: Settings, words: list[str]) -> NoReturn:
    """Replace this process by nodetool for the node."""
    software = cassandra(settings.software)
    words = ["-h", LOOPBACK, "-p", str(node.jmx_port), *words]
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dcassandra.logdir={settings.state}", LOGGING]
    flags = [f"@{HERE / 'jvm.args'}", *quick, "-cp", software.class_path]
    os.execv(software.java.binary, [software.java.binary, *flags, "org.apache.cassandra.tools.NodeTool", *words])


def _configuration(node: Node, settings: Settings) -> str:
    return Template((HERE / "cassandra.yaml.in").read_text()).substitute(
        cluster=node.name.partition("-")[0],
        token=node.token,
        seeds=",".join(host for host in node.hosts if host != node.host or not node.replaces),
        bootstrap="true" if node.replaces else "false",
        host=node.host,
        port=node.port,
        storage_port=node.storage_port,
        directory=node.directory,
        commit_log=COMMIT_LOGS[settings.commit_log],
    )


def _java(software: Cassandra, settings: Settings) -> list[str]:
    return [
        software.java.binary,
        f"@{HERE / 'jvm.args'}",
        f"-Xms{settings.heap}",
        f"-Xmx{settings.heap}",
        "-Xss256k",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:MaxDirectMemorySize=256M",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:+UseThreadPriorities",
        "-XX:+PerfDisableSharedMem",
        "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true",
    ]


def _classes(software: Cassandra, *, record: bool) -> list[str]:
    """Return the class path and the class archive: to read if there is one, else to write at the end."""
    path = ["-cp", software.class_path]
    if software.archive.exists():
        return [f"-XX:SharedArchiveFile={software.archive}", *path]
    software.new_archive.unlink(missing_ok=True)
    return [f"-XX:ArchiveClassesAtExit={software.new_archive}", *path] if record else path


def _daemon(node: Node) -> list[str]:
    options = {
        "cassandra.config": f"file:{node.directory}/cassandra.yaml",
        SITE_FILE: f"file:{node.directory}/{SITE_FILE}",
        "cassandra.storagedir": node.directory,
        "cassandra.logdir": node.directory,
        "cassandra.jmx.local.port": node.jmx_port,
        # all nodes are known and on this machine: no need to wait for others
        "cassandra.skip_wait_for_gossip_to_settle": 0,
        "cassandra.ring_delay_ms": 100,
        # a node that is silent for half of this before its tokens are known is forgotten, as by default after 100 ms
        "cassandra.gossip_quarantine_delay_ms": 60_000,
        "cassandra.superuser_setup_delay_ms": 0,
        "cassandra.shutdown_announce_in_ms": 100,
        "cassandra.consistent.rangemovement": "false",
        "cassandra.load_ring_state": "false",
    }
    if len(node.hosts) == 1:
        # what is flushed after each change of the schema and each truncation stays in memory and in the commit log: a
        # keyspace with all tables takes 4 CPU seconds instead of 10, and a single node is not killed in tests
        options |= {"cassandra.test.flush_local_schema_changes": "false", "cassandra.unsafesystem": "true"}
    if node.replaces:
        options["cassandra.replace_address_first_boot"] = node.host
    flags = [f"-D{name}={value}" for name, value in options.items()]
    return [LOGGING, *flags, "org.apache.cassandra.service.CassandraDaemon"]


def _activate_archive(software: Cassandra) -> None:
    if software.new_archive.exists():
        software.new_archive.replace(software.archive)
