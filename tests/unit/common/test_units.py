"""The units of systemd."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.acceptance.service import BIN
from tests.parts import need

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Their program is that of this environment: systemd checks that it can be run."""
    need("systemd")
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/cns/bin/", f"{BIN}/"))
    words = ["systemd-analyze", "verify", "--man=no", *sorted(map(str, tmp_path.iterdir()))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
