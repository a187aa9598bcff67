"""Names the sides: the service in two forms, and other programs with these APIs as their registries have them."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from deploy.servers.failure import Failure
from deploy.servers.software import find_java
from lab.bench.servers import FLOOR, SERVICE, service
from lab.harness.installing import Program, build_go, build_java, build_javascript, build_python, installed
from lab.harness.processes import BIN
from lab.harness.server import Server, running

SOURCES = Path(__file__).parent / "peers"
CHOICE = "PEERS"
"""A variable: the names of the peers, separated by spaces or commas; by default all of `PEERS` but the floor."""
REASON_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One program in one form. Its command may contain {port} and {data}, as in `lab.harness.server.running`."""

    name: str
    version: str = ""
    program: Program | None = None
    source: str = ""
    """The directory of `SOURCES` that the program is installed from."""
    start: Callable[[list[str]], list[str]]
    """The command from the installed program's."""
    keeps: str = "memory"
    is_ours: bool = False
    checks_signatures: bool = False
    has_topics: bool = True
    query: bool = False
    topic_attributes: Mapping[str, str] = field(default_factory=dict)
    long_read: list[str] = field(default_factory=list)
    """The command of its backup, with {data} and {out}; without one the queue's attributes are read in a loop."""

    def command(self) -> list[str]:
        """Installs the program if need be. Raises AssertionError, Failure or TimeoutExpired if it cannot be had."""
        return self.start(installed(self.program, SOURCES / self.source, "peers") if self.program else [])

    @contextmanager
    def running(self, data: Path) -> Iterator[Server]:
        """Run it in the block, on what an earlier run left in the directory."""
        if self.is_ours:
            with service(data, command=self.command(), name=self.name) as server:
                yield server
        else:
            with running(self.name, self.command(), data) as server:
                yield dataclasses.replace(server, query=self.query)


BACKUP = [str(BIN / "cns"), "backup", "{out}", "--data", "{data}"]
OURS = (
    Side(
        name="CNS and CQS",
        start=lambda _: SERVICE,
        keeps="disk",
        is_ours=True,
        checks_signatures=True,
        long_read=BACKUP,
    ),
    Side(
        name="… auth=off, envelopes unsigned",
        start=lambda _: [*SERVICE, "--auth", "off"],
        keeps="disk",
        is_ours=True,
        topic_attributes={"SignQueueEnvelopes": "false"},
        long_read=BACKUP,
    ),
)


def _node(built: Path) -> list[str]:
    """The Node that came with it, since Debian's is older than its stores need."""
    nodes = list(built.glob("node_modules/node-linux-*/bin/node"))
    assert nodes, "there is no Node for this kind of machine in its lock"
    return [str(nodes[0]), str(built / "start.mjs")]


def _goaws(words: list[str]) -> list[str]:
    """It reads its port from a file."""
    facts = "Local: {{Host: 127.0.0.1, Port: {port}, Region: us-east-1, AccountId: '000000000000'}}"
    return ["sh", "-c", f'echo "{facts}" > "$0.yaml" && exec "$@" -config "$0.yaml"', "{data}", *words]


def _elasticmq(words: list[str], *settings: str) -> list[str]:
    own = ("rest-sqs.bind-hostname=127.0.0.1", "rest-sqs.bind-port={port}", "node-address.port={port}")
    properties = [f"-D{one}" for one in (*own, "rest-stats.enabled=false", *settings)]
    return [words[0], *properties, *words[1:]]


def _ministack(words: list[str]) -> list[str]:
    """The address of Docker keeps it from the containers of this machine."""
    return ["env", "BIND_HOST=127.0.0.1", "GATEWAY_PORT={port}", "DOCKER_HOST=unix:///nowhere", *words]


def _java(built: Path) -> list[str]:
    java = find_java()
    assert java is not None, "no Java"
    return [java.binary, "-cp", f"{built}/jars/*", "org.elasticmq.server.Main"]


FAUXQS = Program(part="node", build=build_javascript, command=_node)
GOAWS = Program(
    part="go",
    build=partial(build_go, package="github.com/Admiral-Piett/goaws/app/cmd"),
    command=lambda built: [str(built / "client")],
)
ELASTICMQ = Program(part="jdk", build=build_java, command=_java)
MOTO = Program(build=build_python, command=lambda built: [str(built / "bin/moto_server")])
MINISTACK = Program(build=build_python, command=lambda built: [str(built / "bin/ministack")])
H2 = ("messages-storage.enabled=true", "messages-storage.uri=jdbc:h2:{data}-messages")
COPY_SQLITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))"

PEERS: Mapping[str, Side] = {
    "fauxqs": Side(
        name="fauxqs, memory",
        version="2.4.1",
        program=FAUXQS,
        source="fauxqs",
        start=lambda words: [*words, "{port}"],
    ),
    "fauxqs-sqlite": Side(
        name="fauxqs, SQLite",
        version="2.4.1",
        program=FAUXQS,
        source="fauxqs",
        start=lambda words: [*words, "{port}", "{data}"],
        keeps="disk",
        long_read=[sys.executable, "-c", COPY_SQLITE, "{data}/fauxqs.db", "{out}"],
    ),
    "elasticmq": Side(
        name="ElasticMQ, memory",
        version="1.6.16",
        program=ELASTICMQ,
        source="elasticmq",
        start=_elasticmq,
        has_topics=False,
    ),
    "elasticmq-h2": Side(
        name="ElasticMQ, H2",
        version="1.6.16",
        program=ELASTICMQ,
        source="elasticmq",
        start=lambda words: _elasticmq(words, *H2),
        keeps="disk",
        has_topics=False,
    ),
    "goaws": Side(
        name="GoAws",
        version="0.4.5",
        program=GOAWS,
        source="goaws",
        start=_goaws,
        query=True,
    ),
    "moto": Side(
        name="moto server",
        version="5.2.5",
        program=MOTO,
        source="moto",
        start=lambda words: [*words, "-H", "127.0.0.1", "-p", "{port}"],
    ),
    "ministack": Side(
        name="MiniStack",
        version="1.5.33",
        program=MINISTACK,
        source="ministack",
        start=_ministack,
    ),
    "floor": Side(name="the floor", start=lambda _: FLOOR, keeps="disk", has_topics=False),
}


def chosen(scratch: Path) -> tuple[list[Side], dict[str, str]]:
    """Ours and the chosen peers, installed and started once; and why each of the others cannot be had."""
    names = re.split(r"[\s,]+", os.environ.get(CHOICE, "").strip())
    names = [name for name in names if name] or [name for name, peer in PEERS.items() if peer.program]
    if unknown := set(names) - PEERS.keys():
        raise SystemExit(f"{CHOICE}: no peer {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    sides, absent = list(OURS), dict[str, str]()
    for name in names:
        try:
            with PEERS[name].running(scratch / f"start-{name}"):
                sides.append(PEERS[name])
        except (AssertionError, Failure, subprocess.TimeoutExpired) as error:
            absent[PEERS[name].name] = str(error).rstrip().rpartition("\n")[2][:REASON_CHARS]
    return sides, absent
