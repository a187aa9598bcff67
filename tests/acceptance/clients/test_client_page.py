"""The programs of docs/guides/clients.md, each with an SDK and a configuration in its code, send and receive."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.harness.parts import need
from lab.harness.processes import BIN
from lab.harness.running import Up
from lab.harness.waiting import PATIENCE_S
from tests.clients.installing import HERE, installed

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "clients.md").read_text()


def _python(directory: Path) -> list[str]:
    return [sys.executable, "hello.python"]


def _bash(directory: Path) -> list[str]:
    return ["bash", "-eu", "hello.bash"]


def _javascript(directory: Path) -> list[str]:
    """Modules are found beside the program."""
    built = Path(installed("javascript")[-1]).parent
    (directory / "node_modules").symlink_to(built / "node_modules")
    (directory / "hello.mjs").symlink_to("hello.javascript")
    return ["node", "--preserve-symlinks-main", "hello.mjs"]


def _java(directory: Path) -> list[str]:
    java, quick, _, path, _ = installed("java")
    (directory / "Hello.java").symlink_to("hello.java")
    return [java, quick, "-cp", path, "Hello.java"]


def _go(directory: Path) -> list[str]:
    need("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go" / name, directory)
    (directory / "hello.go").rename(directory / "main.go")
    subprocess.run(["go", "build", "-o", "hello", "."], cwd=directory, check=True, timeout=PATIENCE_S)
    return ["./hello"]


PROGRAMS: dict[str, Callable[[Path], list[str]]] = {
    "python": _python,
    "bash": _bash,
    "javascript": _javascript,
    "java": _java,
    "go": _go,
}
"""Functions that prepare a program in its directory, and return the command that runs it."""


IN_THE_GATE = "python"
LANGUAGES = [
    pytest.param(name, marks=pytest.mark.slice if name == IN_THE_GATE else pytest.mark.extended) for name in PROGRAMS
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_sends_and_receives(service: Up, tmp_path: Path, language: str) -> None:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / f"hello.{language}").write_text(text)
    command = PROGRAMS[language](tmp_path)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    keys = [service.environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    done = subprocess.run(
        [*command, service.url, *keys],
        cwd=tmp_path,
        env={**environment, "PATH": f"{BIN}:{os.environ['PATH']}", "AWS_PAGER": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
