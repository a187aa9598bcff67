"""The image has what it runs, and no more than .dockerignore lets through."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.images.__main__ import main
from tests.wheel import FOLDERS

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
LET_THROUGH = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)


def copied() -> set[str]:
    """The files that the Dockerfile copies from the context."""
    lines = re.findall(r"^COPY (?!--from)(.+)", DOCKERFILE, re.MULTILINE)
    return {source for line in lines for source in line.split()[:-1]}


def test_what_is_copied_is_let_through_and_exists() -> None:
    assert copied() == set(LET_THROUGH)
    assert all((ROOT / source).exists() for source in copied())


def test_every_package_of_the_wheel_is_in_the_image() -> None:
    assert set(FOLDERS) <= copied()


def test_it_runs_as_a_user_and_says_whether_it_is_well() -> None:
    assert re.search(r"^USER cns$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", DOCKERFILE, re.MULTILINE)


def test_what_building_takes_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["cns"]) == 1
    assert "apt-get install podman debootstrap" in capsys.readouterr().err


def test_every_model_of_botocore_that_is_loaded_is_kept() -> None:
    kept = set(re.findall(r"! -name (\w+)", DOCKERFILE))
    loaded = {
        name
        for package in FOLDERS
        for path in (ROOT / package).rglob("*.py")
        for name in re.findall(r'load_service\("(\w+)"\)', path.read_text())
    }
    assert loaded and loaded <= kept
