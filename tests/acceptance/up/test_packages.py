"""The wheel is the same for the same source, and bills of materials name what is installed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import wheel

ROOT = Path(__file__).parents[3]
COMMITTED_S = 1_700_000_000
BILLS = Path(".venv") / "tools" / "sbom"

pytestmark = pytest.mark.extended


def test_two_releases_of_a_commit_are_the_same(tmp_path: Path) -> None:
    """Of clones in directories of other names, by users with other umasks; the work tree has no part in it."""
    subprocess.run(["make", f"{BILLS}.done"], cwd=ROOT, check=True, env={**os.environ, "MAKEFLAGS": ""})
    sums = []
    for name, umask in (("first", 0o022), ("a-second-one", 0o077)):
        clone = tmp_path / name / "clone"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True, umask=umask)
        done = released(clone, umask)
        assert done.returncode == 0, done.stderr
        files = clone / "build" / "release"
        sums.append((files / "SHA256SUMS").read_text())
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=files, check=True)
    assert sums[0] == sums[1]
    kinds = {Path(line.split()[1]).suffix for line in sums[0].splitlines()}
    assert kinds == {".gz", ".whl", ".deb", ".json", ".md"}
    (clone / "README.md").write_text("changed")
    done = released(clone)
    assert (done.returncode, "not committed" in done.stderr) == (1, True)


def released(clone: Path, umask: int = -1) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.release", "--bills", str(ROOT / BILLS), "--unreleased"]
    environment = {**os.environ, "PYTHONPATH": str(clone)}
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False, umask=umask)


def test_two_builds_are_the_same(tmp_path: Path) -> None:
    """The second from files with other dates."""
    hashes = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        built = wheel.build(tmp_path / name, COMMITTED_S)
        hashes.append(hashlib.sha256(built.read_bytes()).hexdigest())
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("lock", ["core", "cluster", "pipeline", "otel"])
def test_the_bill_of_materials_has_every_locked_package(lock: str) -> None:
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, env={**os.environ, "MAKEFLAGS": ""}, capture_output=True)
    bill = json.loads((ROOT / "build" / "sbom" / f"{lock}.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {(each["name"].lower(), each["version"]) for each in bill["components"]}
    locked = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements" / f"{lock}.lock").read_text(), re.MULTILINE)
    assert listed == {(name.lower(), version) for name, version in locked}
