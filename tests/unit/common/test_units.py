"""The units of systemd."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cns_common.configuration.settings import Settings
from cns_common.process.supervisor import EXIT_CODES_FINAL
from cns_server.listener import SERVICE
from lab.harness.parts import need
from lab.harness.processes import BIN

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Their program is that of this environment: systemd checks that it can be run."""
    need("systemd")
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/cns/bin/", f"{BIN}/"))
    words = ["systemd-analyze", "verify", "--man=no", *sorted(map(str, tmp_path.iterdir()))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["cns", "cns-api", "cns-worker"])
def test_the_service_runs_in_a_sandbox(name: str) -> None:
    """Exposure by systemd's own measure, from 0 to 10: at most 2.5, where a unit without a sandbox has 9.6."""
    need("systemd")
    words = ["systemd-analyze", "security", "--offline=yes", "--threshold=25", "--no-pager"]
    done = subprocess.run([*words, str(UNITS / f"{name}.service")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_units_say_which_exits_a_restart_cannot_mend() -> None:
    final = {str(code) for code in EXIT_CODES_FINAL}
    for name in ("cns", "cns-api", "cns-worker"):
        (line,) = [each for each in (UNITS / f"{name}.service").read_text().splitlines() if "PreventExit" in each]
        assert set(line.partition("=")[2].split()) <= final, line


@pytest.mark.parametrize("name", ["cns", "cns-api"])
def test_the_sockets_are_those_of_the_default_settings(name: str) -> None:
    """`Listeners` takes no other name, and no other port."""
    words = (UNITS / f"{name}.socket").read_text().splitlines()
    assert f"Service={name}.service" in words
    assert f"FileDescriptorName={SERVICE}" in words
    (address,) = [line.partition("=")[2] for line in words if line.startswith("ListenStream=")]
    assert int(address.rpartition(":")[2]) == Settings().port
