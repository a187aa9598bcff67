"""Builds the Debian package: an environment of Debian's Python in /opt/cns, the units, /etc/cns/cns.env."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.failure import Failure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = Path("/usr/bin/python3")
"""Debian's: the environment uses it wherever the package is installed."""
PROGRAM = Path("opt/cns")
UNITS = Path("lib/systemd/system")
SCRIPTS = ("postinst", "prerm", "postrm")
CONFFILE = Path("etc/cns/cns.env")
SERVICES_KEPT = ("sqs", "sns", "sts")
"""The services whose models are kept of the hundreds in botocore."""
NOT_USED = ("*.c", "*.pyx", "*.pxd")
"""Sources of compiled modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """`tools` has uv; `work` is emptied; `locks` name what the environment has beside the service."""

    wheel: Path
    tools: Path
    work: Path
    locks: Sequence[str]
    source_date_s: int

    @property
    def root(self) -> Path:
        return self.work / "root"

    def run(self) -> Path:
        """Build the package. Returns its path. Raises Failure."""
        if not PYTHON.exists():
            raise Failure(f"{PYTHON} is missing: build the package on Debian, with python3")
        shutil.rmtree(self.work, ignore_errors=True)
        self.root.mkdir(parents=True)
        self._make_environment()
        self._place_files()
        return self._pack()

    def _make_environment(self) -> None:
        uv, environment = self.tools / "uv", self.root / PROGRAM
        _run(uv, "venv", "--quiet", "--relocatable", "--python", PYTHON, environment)
        install = (uv, "pip", "install", "--quiet", "--python", environment, "--link-mode", "copy")
        files = [word for lock in self.locks for word in ("-r", ROOT / "requirements" / f"{lock}.lock")]
        _run(*install, "--no-build-isolation", "--require-hashes", *files)
        _run(*install, "--no-deps", "--no-index", self.wheel)
        (site,) = environment.glob("lib/python3*/site-packages")
        for service in (site / "botocore" / "data").iterdir():
            if service.is_dir() and service.name not in SERVICES_KEPT:
                shutil.rmtree(service)
        for pattern in NOT_USED:
            for path in site.rglob(pattern):
                path.unlink()
        hashed = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
        _run(PYTHON, *hashed, "-s", self.root, "-p", "/", site)

    def _place_files(self) -> None:
        root = self.root
        for unit in sorted((ROOT / "deploy" / "systemd").iterdir()):
            _copy(unit, root / UNITS / unit.name)
        _copy(ROOT / "deploy" / "sysusers" / "cns.conf", root / "usr/lib/sysusers.d/cns.conf")
        _copy(HERE / "cns.env", root / CONFFILE, mode=0o640)
        _copy(ROOT / "LICENSE", root / "usr/share/doc/cns/copyright")
        _copy(ROOT / "CHANGELOG.md", root / "usr/share/doc/cns/CHANGELOG.md")
        link = root / "usr/bin/cns"
        link.parent.mkdir(parents=True)
        link.symlink_to(Path("../..") / PROGRAM / "bin/cns")
        control = root / "DEBIAN"
        for script in SCRIPTS:
            _copy(HERE / script, control / script, mode=0o755)
        (control / "conffiles").write_text(f"/{CONFFILE}\n")
        (control / "control").write_text(self._control())

    def _control(self) -> str:
        version = self.wheel.name.split("-")[1]
        minor = int(_run(PYTHON, "-c", "import sys; print(sys.version_info.minor)"))
        size_bytes = sum(path.lstat().st_size for path in self.root.rglob("*") if path.is_file())
        return (
            (HERE / "control.in")
            .read_text()
            .format(
                version=re.sub(r"\.?(dev|a|b|rc)", r"~\1", version),  # before the release of this number
                architecture=_run("dpkg", "--print-architecture"),
                python=f"3.{minor}",
                next_python=f"3.{minor + 1}",
                installed_kib=size_bytes // 1024,
            )
        )

    def _pack(self) -> Path:
        architecture = _run("dpkg", "--print-architecture")
        target = self.work / f"cns_{self.wheel.name.split('-')[1]}_{architecture}.deb"
        dated = {**os.environ, "SOURCE_DATE_EPOCH": str(self.source_date_s)}
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", self.root, target, environment=dated)
        return target


def _copy(source: Path, target: Path, *, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def _run(*words: str | Path, environment: dict[str, str] | None = None) -> str:
    """The output of a program. Raises Failure with what it said if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise Failure(f"{Path(words[0]).name} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
