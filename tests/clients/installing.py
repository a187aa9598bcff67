"""Installs and builds the clients by their languages' package managers, from locks with hashes, into `build/clients`.

What a client is made of is noted beside it: as long as that stays the same, nothing is done. Without a tool that a
language needs a test fails; it never skips.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.lock import exclusive_lock
from deploy.servers.server import print_message
from deploy.servers.settings import BUILD
from deploy.servers.software import ensure_installed
from lab.harness.language_tools import find_jdk
from lab.harness.parts import PARTS, need

HERE = Path(__file__).resolve().parent
INSTALL_S = 1_200.0
SAID_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """`build` makes it from its directory in the tree, in a new one; `command` runs it there."""

    part: str
    build: Callable[[Path, Path], None]
    command: Callable[[Path], list[str]]


def installed(name: str) -> list[str]:
    """The command that runs a client, which is installed first if need be."""
    client = ALL[name]
    source, directory = HERE / name, BUILD / "clients" / name
    built, made_of = directory / "client", directory / "made_of"
    need(client.part)
    ensure_installed(*PARTS[client.part].packages)
    with exclusive_lock(directory):
        wanted = _digest(source)
        if not made_of.exists() or made_of.read_text() != wanted:
            print_message(f"clients: building {name}")
            made_of.unlink(missing_ok=True)
            shutil.rmtree(built, ignore_errors=True)
            client.build(source, built)
            made_of.write_text(wanted)
    return client.command(built)


def _build_javascript(source: Path, built: Path) -> None:
    shutil.copytree(source, built)
    _run(["npm", "ci"], built)


def _build_go(source: Path, built: Path) -> None:
    _run(["go", "build", "-trimpath", "-mod=readonly", "-o", str(built / "client")], source, CGO_ENABLED="0")


def _build_java(source: Path, built: Path) -> None:
    goals = ["compile", "dependency:copy-dependencies"]
    _run(["mvn", "-B", "-q", "-ntp", f"-Dto={built}", *goals], source, JAVA_HOME=str(find_jdk()))
    locked = (source / "jars.sha256").read_text().splitlines()
    found = [f"{_sha256(jar.read_bytes())}  {jar.name}" for jar in (built / "jars").iterdir()]
    strange = set(locked) ^ set(found)
    assert not strange, "jars that are not as jars.sha256 says:\n" + "\n".join(sorted(strange))


def _java(main: str, built: Path) -> list[str]:
    quick = "-XX:TieredStopAtLevel=1"  # the program runs for seconds only
    return [f"{find_jdk()}/bin/java", quick, "-cp", f"{built}/classes:{built}/jars/*", main]


CLIENTS: Mapping[str, Client] = {
    "javascript": Client(
        part="node",
        build=_build_javascript,
        command=lambda built: ["node", str(built / "main.js")],
    ),
    "java": Client(
        part="jdk",
        build=_build_java,
        command=lambda built: _java("client.Main", built),
    ),
    "go": Client(
        part="go",
        build=_build_go,
        command=lambda built: [str(built / "client")],
    ),
}

ORACLES: Mapping[str, Client] = {
    "ruler": Client(
        part="jdk",
        build=_build_java,
        command=lambda built: _java("ruler.Main", built),
    ),
}
"""Programs whose answers are compared with the service's."""

VALIDATORS: Mapping[str, Client] = {
    "sns-validator": Client(
        part="node",
        build=_build_javascript,
        command=lambda built: ["node", str(built / "main.js")],
    ),
    "message-manager": Client(
        part="jdk",
        build=_build_java,
        command=lambda built: _java("manager.Main", built),
    ),
}
"""Signature validators."""

RULES: Mapping[str, Client] = {
    "axe": Client(
        part="node",
        build=_build_javascript,
        command=lambda built: ["node", str(built / "node_modules/axe-core/axe.min.js")],
    ),
}
"""Rules of accessibility, which run in a page."""

ALL = {**CLIENTS, **ORACLES, **VALIDATORS, **RULES}


def _run(command: list[str], directory: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=INSTALL_S,
    )
    said = "\n".join(done.stdout.splitlines()[-SAID_LINES:])
    assert done.returncode == 0, f"{' '.join(command)} in {directory}:\n{said}"


def _digest(directory: Path) -> str:
    """A digest of the names and contents of all files."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return _sha256("".join(f"{path.relative_to(directory)} {_sha256(path.read_bytes())}\n" for path in files).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
