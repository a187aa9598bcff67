"""Installs and builds programs by their languages' package managers, from locks with hashes, into `build`.

What a program is made of is noted beside it: as long as that stays the same, nothing is done. Without a tool that its
language needs a test fails; it never skips.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.lock import exclusive_lock
from deploy.servers.server import print_message
from deploy.servers.settings import BUILD
from deploy.servers.software import ensure_installed
from lab.harness.language_tools import find_jdk
from lab.harness.parts import PARTS, need

INSTALL_S = 1_200.0
SAID_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`build` makes it from its directory in the tree, in a new one; `command` runs it there."""

    part: str = ""
    build: Callable[[Path, Path], None]
    command: Callable[[Path], list[str]]


def installed(program: Program, source: Path, kind: str) -> list[str]:
    """The command that runs a program, which is installed into `build/<kind>` first if need be."""
    directory = BUILD / kind / source.name
    built, made_of = directory / "client", directory / "made_of"
    if program.part:
        need(program.part)
        ensure_installed(*PARTS[program.part].packages)
    with exclusive_lock(directory):
        wanted = _digest(source)
        if not made_of.exists() or made_of.read_text() != wanted:
            print_message(f"{kind}: building {source.name}")
            made_of.unlink(missing_ok=True)
            shutil.rmtree(built, ignore_errors=True)
            program.build(source, built)
            made_of.write_text(wanted)
    return program.command(built)


def build_javascript(source: Path, built: Path) -> None:
    shutil.copytree(source, built)
    _run(["npm", "ci"], built)


def build_go(source: Path, built: Path, package: str = ".") -> None:
    words = ["go", "build", "-trimpath", "-mod=readonly", "-o", str(built / "client"), package]
    _run(words, source, CGO_ENABLED="0")


def build_java(source: Path, built: Path) -> None:
    goals = ["compile", "dependency:copy-dependencies"]
    _run(["mvn", "-B", "-q", "-ntp", f"-Dto={built}", *goals], source, JAVA_HOME=str(find_jdk()))
    locked = (source / "jars.sha256").read_text().splitlines()
    found = [f"{_sha256(jar.read_bytes())}  {jar.name}" for jar in (built / "jars").iterdir()]
    strange = set(locked) ^ set(found)
    assert not strange, "jars that are not as jars.sha256 says:\n" + "\n".join(sorted(strange))


def build_python(source: Path, built: Path) -> None:
    """An environment of its own: its versions are not ours."""
    _run([sys.executable, "-m", "venv", str(built)], source)
    install = ["pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    _run([str(built / "bin/python"), "-m", *install, "-r", "requirements.lock"], source)


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
