"""The Debian package: built, installed into a directory of its own, upgraded, purged."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cns as package
from deploy.debian.package import MINORS
from lab.harness.waiting import PATIENCE_S
from tests import wheel

ROOT = Path(__file__).parents[3]
ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\n",
    "group": "root:x:0:\n",
    "shadow": "root:*:19000:0:99999:7:::\n",
    "gshadow": "root:*::\n",
    "login.defs": "",
}

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(os.geteuid() != 0, reason="dpkg gives files to root"),
]


@pytest.fixture(scope="module")
def deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("deb")
    built = wheel.build(directory, 1_700_000_000)
    words: list[str | Path] = [
        "--wheel",
        built,
        "--work",
        directory / "work",
        "--locks",
        "core",
        "--date",
        "1700000000",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "deploy.debian", *words, "--date", "1700000000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A directory as the root of an installation, without programs: scripts are run with DPKG_ROOT, not in a chroot."""
    directory = tmp_path / "root"
    for name in ("etc", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (directory / name).mkdir(parents=True)
    (directory / "var/lib/dpkg/status").touch()
    for name, text in ACCOUNTS.items():
        (directory / "etc" / name).write_text(text)
    yield directory


def dpkg(root: Path, *words: str | Path) -> str:
    forced = ("--force-script-chrootless", "--force-depends", "--force-confold", f"--log={root}/dpkg.log")
    done = subprocess.run(
        ["dpkg", f"--root={root}", *forced, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def version_by(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.strip()


def test_installed_upgraded_and_purged(deb: Path, root: Path) -> None:
    said = dpkg(root, "--install", deb)
    for program in ("opt/cns/bin/cns", "usr/bin/cns"):
        assert version_by(root / program) == f"cns {package.__version__}"
    (user,) = [line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("cns:")]
    _, _, uid, gid, _, home, shell = user.split(":")
    assert (home, shell) == ("/var/lib/cns", "/usr/sbin/nologin")
    data, config = root / "var/lib/cns", root / "etc/cns/cns.env"
    assert (data.stat().st_uid, data.stat().st_gid, stat.S_IMODE(data.stat().st_mode)) == (int(uid), int(gid), 0o700)
    assert (config.stat().st_gid, stat.S_IMODE(config.stat().st_mode)) == (int(gid), 0o640)
    key = root / "etc/cns/first-key"
    assert (key.stat().st_uid, key.stat().st_gid, stat.S_IMODE(key.stat().st_mode)) == (0, int(gid), 0o620)
    assert "systemctl enable --now cns" in said and "cat /etc/cns/first-key" in said
    unit = (root / "usr/lib/systemd/system/cns.service").read_text()
    assert "EnvironmentFile=-/etc/cns/cns.env" in unit
    assert (root / unit.partition("ExecStart=/")[2].split()[0]).exists()
    made = subprocess.run(
        [root / "usr/bin/cns", "account", "create", "--data", data],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert "export AWS_ACCESS_KEY_ID=" in made.stdout
    config.write_text("CNS_PORT=7000\n")
    key.write_text("# a key\n")
    assert "systemctl" not in dpkg(root, "--install", deb), "an upgrade tells nothing"
    assert key.read_text() == "# a key\n"
    assert config.read_text() == "CNS_PORT=7000\n"
    dpkg(root, "--remove", "cns")
    assert not (root / "opt/cns").exists()
    assert (data / "store.db").exists() and config.exists()
    dpkg(root, "--purge", "cns")
    assert not data.exists() and not config.parent.exists()


def test_what_is_in_it_belongs_to_root_and_is_dated(deb: Path) -> None:
    listed = subprocess.run(["dpkg-deb", "--contents", deb], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in listed.splitlines()]
    assert {line[1] for line in lines} == {"root/root"}
    assert {line[3] for line in lines} == {"2023-11-14"}
    assert not [line[5] for line in lines if line[5].endswith((".c", ".pyx", ".pyc", "direct_url.json"))]


def test_it_is_for_each_python_that_it_says(deb: Path, tmp_path: Path) -> None:
    """It has the modules of each, with compiled ones of the version, and no more than one copy of what they share."""
    control = subprocess.run(["dpkg-deb", "--field", deb, "Depends"], capture_output=True, text=True, check=True).stdout
    assert "python3 (>= 3.11), python3 (<< 3.14)" in control
    subprocess.run(["dpkg-deb", "--extract", deb, tmp_path], check=True)
    shared = []
    for minor in MINORS:
        site = tmp_path / f"opt/cns/lib/python3.{minor}/site-packages"
        compiled = {path.name for path in site.rglob("*.so") if ".cpython-3" in path.name}
        assert {name.partition(".cpython-3")[2][:2] for name in compiled} == {str(minor)}
        shared.append((site / "cns_cli/main.py").stat().st_ino)
    assert len(set(shared)) == 1
