"""The wheel, built from this source and installed into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from lab.harness.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "cns_common",
    "cqs",
    "cns",
    "cns_backend",
    "cns_workers",
    "cns_server",
    "cns_receiver",
    "cns_pipeline",
    "cns_cli",
    "cns_pytest",
)
"""The top-level packages that the wheel installs: names that collide with none of a user's."""
FOLDERS = tuple("workers" if package == "cns_workers" else package for package in PACKAGES)
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def build(directory: Path, source_date_s: int | None = None) -> Path:
    """Build the wheel in an empty directory, from a copy of the source; returns its path."""
    source = directory / "source"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    dated = {} if source_date_s is None else {"SOURCE_DATE_EPOCH": str(source_date_s)}
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", directory)
    _run(*_PIP, "wheel", *options, source, environment={**os.environ, **dated})
    (wheel,) = directory.glob("cns_cqs-*.whl")
    return wheel


def install(directory: Path) -> Path:
    """The programs of an environment with the wheel; what the service depends on is that of the tests."""
    wheel = build(directory)
    environment = directory / "venv"
    venv.create(environment)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _run(*_PIP, "--python", environment / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    return environment / "bin"


def _run(*words: str | Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
