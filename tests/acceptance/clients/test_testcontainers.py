"""examples/testcontainers: checked by types, by the compiler, and up to the start of a container where none runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.harness.installing import Program, build_python, installed
from lab.harness.language_tools import find_jdk
from lab.harness.parts import need
from tests.clients.installing import HERE

EXAMPLES = Path(__file__).parents[3] / "examples" / "testcontainers"
LIMIT_S = 1_200
NO_DOCKER = "Could not find a working container runtime strategy"
PYTHON = Program(build=build_python, command=lambda built: [str(built / "bin" / "python")])

pytestmark = pytest.mark.extended


def run(directory: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_python(tmp_path: Path) -> None:
    (python,) = installed(PYTHON, HERE / "testcontainers", "clients")
    options = ("--strict", "--allow-untyped-defs", "--allow-untyped-calls", "--allow-incomplete-defs", "--config-file=")
    example = EXAMPLES / "python" / "test_orders.py"
    words = ("-m", "mypy", *options, "--python-executable", python, "--disable-error-code=import-untyped", example)
    checked = run(tmp_path, sys.executable, *words)
    assert checked.returncode == 0, checked.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text(example.read_text().replace("with_exposed_ports", "with_open_ports"))
    assert "with_open_ports" in run(tmp_path, sys.executable, *words[:-1], wrong).stdout, "types are known"


def test_java(tmp_path: Path) -> None:
    need("jdk")
    shutil.copytree(EXAMPLES / "java", tmp_path / "java")
    built = run(tmp_path / "java", "mvn", "-B", "-q", "-ntp", "test-compile", JAVA_HOME=str(find_jdk()))
    assert built.returncode == 0, built.stdout
    assert (tmp_path / "java/target/test-classes/OrdersTest.class").exists()


def test_node(tmp_path: Path) -> None:
    need("node")
    directory = shutil.copytree(EXAMPLES / "node", tmp_path / "node")
    fetched = run(directory, "npm", "ci", "--ignore-scripts", "--no-audit")
    assert fetched.returncode == 0, fetched.stderr
    locked = json.loads((directory / "package-lock.json").read_text())["packages"]
    assert all(each.get("integrity") for name, each in locked.items() if name)
    done = run(directory, "node", "--test")
    assert done.returncode == 0 or NO_DOCKER in done.stdout, done.stdout
