"""Builds the Debian package: an environment for each Python of Debian in /opt/cns, the units, /etc/cns/cns.env."""

from __future__ import annotations

import hashlib
import os
import platform
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
MINORS = (11, 12, 13)
"""The versions 3.x that the package is for, which `make test-pythons` tests: Debian 12 has 3.11, Debian 13 has 3.13."""
PLATFORM = "manylinux_2_28"
"""The oldest glibc that the compiled modules may need, whatever machine builds the package."""
PROGRAM = Path("opt/cns")
PROGRAMS = {"cns": "cns_cli.main", "celery": "celery.__main__"}
"""The commands in /opt/cns/bin, and the modules of their `main`; celery is there with the lock `cluster`."""
UNITS = Path("usr/lib/systemd/system")
SCRIPTS = ("postinst", "prerm", "postrm")
CONFFILE = Path("etc/cns/cns.env")
DOCUMENTATION = Path("usr/share/doc/cns")
SERVICES_KEPT = ("sqs", "sns", "sts")
"""The services whose models are kept of the hundreds in botocore."""
NOT_USED = ("*.c", "*.pyx", "*.pxd", "direct_url.json", "uv_cache.json", "RECORD", ".lock")
"""Sources of compiled modules; what names paths and times of the machine that builds."""
SCRIPT = """\
#!/bin/sh
'''exec' "$(dirname "$(readlink -f "$0")")/python" -P "$0" "$@"
' '''
import sys

from {module} import main

sys.exit(main())
"""
"""Shell and Python: it runs by the environment beside it, wherever that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """`tools` has uv; `work` is emptied; `locks` name what the environment has beside the service; `maintainer` is
    `Name <address>`."""

    wheel: Path
    tools: Path
    work: Path
    locks: Sequence[str]
    source_date_s: int
    maintainer: str

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
        """Make a directory of modules for each Python, with equal files as links to one: Debian's Python finds its own.
        They are not compiled: `postinst` does that for the Python that is there."""
        program = self.root / PROGRAM
        _copy(HERE / "pyvenv.cfg", program / "pyvenv.cfg")
        (program / "bin").mkdir()
        (program / "bin" / "python").symlink_to(PYTHON)
        kept: dict[str, Path] = {}
        for minor in MINORS:
            site = program / "lib" / f"python3.{minor}" / "site-packages"
            self._install(minor, site)
            for service in (site / "botocore" / "data").iterdir():
                if service.is_dir() and service.name not in SERVICES_KEPT:
                    shutil.rmtree(service)
            shutil.rmtree(site / "bin")
            for pattern in NOT_USED:
                for path in site.rglob(pattern):
                    path.unlink()
            for path in sorted(path for path in site.rglob("*") if path.is_file()):
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
                first = kept.setdefault(
                    f"{path.relative_to(site)} {hashlib.sha256(path.read_bytes()).hexdigest()}", path
                )
                if first is not path:
                    path.unlink()
                    path.hardlink_to(first)
        for name, module in PROGRAMS.items():
            if (site / module.partition(".")[0]).exists():
                (program / "bin" / name).write_text(SCRIPT.format(module=module))
                (program / "bin" / name).chmod(0o755)

    def _install(self, minor: int, site: Path) -> None:
        tags = (f"--python-version=3.{minor}", f"--python-platform={platform.machine()}-{PLATFORM}")
        install = (self.tools / "uv", "pip", "install", "--quiet", "--python", PYTHON, *tags, "--target", site)
        binary = ("--only-binary", ":all:", "--link-mode", "copy")
        files = [word for lock in self.locks for word in ("-r", ROOT / "requirements" / f"{lock}.lock")]
        _run(*install, *binary, "--require-hashes", *files)
        _run(*install, *binary, "--no-deps", "--no-index", self.wheel)

    def _place_files(self) -> None:
        root = self.root
        for unit in sorted((ROOT / "deploy" / "systemd").iterdir()):
            _copy(unit, root / UNITS / unit.name)
        _copy(ROOT / "deploy" / "sysusers" / "cns.conf", root / "usr/lib/sysusers.d/cns.conf")
        _copy(HERE / "cns.env", root / CONFFILE, mode=0o640)
        _copy(ROOT / "LICENSE", root / DOCUMENTATION / "copyright")
        for page in (ROOT / "CHANGELOG.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
            _copy(page, root / DOCUMENTATION / page.relative_to(ROOT))
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
        files = {path.lstat().st_ino: path.lstat().st_size for path in self.root.rglob("*") if path.is_file()}
        return (
            (HERE / "control.in")
            .read_text()
            .format(
                maintainer=self.maintainer,
                version=re.sub(r"\.?(dev|a|b|rc)", r"~\1", version),  # before the release of this number
                architecture=_run("dpkg", "--print-architecture"),
                python=f"3.{MINORS[0]}",
                next_python=f"3.{MINORS[-1] + 1}",
                installed_kib=sum(files.values()) // 1024,
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
