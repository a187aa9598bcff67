"""The wheel is the same for the same source, and bills of materials name what is installed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import wheel

ROOT = Path(__file__).parents[3]
COMMITTED_S = 1_700_000_000

pytestmark = pytest.mark.extended


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
