"""Builds the files of a release from a commit, outside the work tree: the same bytes for the same commit."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from deploy.release import notes
from deploy.servers.failure import Failure

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
FOLDERS = (
    "cns",
    "cns_backend",
    "cns_cli",
    "cns_common",
    "cns_pipeline",
    "cns_pytest",
    "cns_receiver",
    "cns_server",
    "cqs",
)
SOURCES = (*FOLDERS, "workers", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")
"""What the source distribution has: all that the wheel is built from."""
LOCKS = ("core", "cluster", "pipeline", "otel")
"""Those of which there is a bill of materials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """`bills` has the tool for bills of materials in its `bin`; `target` is emptied. Both are absolute."""

    version: str
    target: Path
    bills: Path
    unreleased: bool = False

    def run(self) -> list[Path]:
        """Build all files. Returns them. Raises Failure."""
        if changed := _git("status", "--porcelain"):
            raise Failure(f"there are changes that are not committed:\n{changed}")
        text = notes.cut(_git("show", "HEAD:CHANGELOG.md"), self.version, unreleased=self.unreleased)
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            self._source(work)
            wheel = self._wheel(work)
            self._debian(work, wheel)
            self._bills(work / "tree")
        (self.target / "RELEASE_NOTES.md").write_text(text)
        files = sorted(self.target.iterdir())
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
        (self.target / "SHA256SUMS").write_text("".join(sums))
        return [*files, self.target / "SHA256SUMS"]

    def _source(self, work: Path) -> None:
        """Place the commit in `work`/tree, and make the source distribution of a part of it, with the metadata that the
        wheel has."""
        name = f"cns_cqs-{self.version}"
        archive = work / "tree.tar"
        _git("archive", f"--prefix={name}/", f"--output={archive}", "HEAD")
        _run("tar", "-C", work, "-xf", archive)
        (work / name).rename(work / "tree")
        built = self._build_wheel(work, work / "metadata")
        with zipfile.ZipFile(built) as files:
            metadata = files.read(f"{name}.dist-info/METADATA")
        (work / "PKG-INFO").write_bytes(metadata)
        mode = ("--format=tar.gz", f"--prefix={name}/", f"--add-file={work / 'PKG-INFO'}")
        _git("archive", *mode, f"--output={self.target / name}.tar.gz", "HEAD", *SOURCES)

    def _wheel(self, work: Path) -> Path:
        """Build the wheel from the source distribution, as those do who have no wheel."""
        name = f"cns_cqs-{self.version}"
        _run("tar", "-C", work, "-xzf", self.target / f"{name}.tar.gz")
        shutil.rmtree(work / "tree" / "build", ignore_errors=True)
        return self._build_wheel(work, self.target, source=work / name)

    def _build_wheel(self, work: Path, target: Path, source: Path | None = None) -> Path:
        words = ("wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", target)
        _run(TOOLS / "pip", *words, source or work / "tree", environment={"SOURCE_DATE_EPOCH": _date()})
        (wheel,) = target.glob("*.whl")
        return wheel

    def _debian(self, work: Path, wheel: Path) -> None:
        words = ("--wheel", wheel, "--work", work / "debian", "--date", _date(), "--maintainer", _maintainer())
        tree = work / "tree"
        _run(sys.executable, "-m", "deploy.debian", *words, directory=tree, environment={"PYTHONPATH": str(tree)})
        (deb,) = (work / "debian").glob("*.deb")
        shutil.copyfile(deb, self.target / deb.name)

    def _bills(self, tree: Path) -> None:
        for lock in LOCKS:
            words = ("requirements", "--pyproject", "pyproject.toml", "--output-reproducible")
            file = self.target / f"cns_cqs-{self.version}-{lock}.cdx.json"
            quiet = {"PYTHONWARNINGS": "ignore::UserWarning"}
            program = self.bills / "bin" / "cyclonedx-py"
            lock_file = f"requirements/{lock}.lock"
            _run(program, *words, "--output-file", file, lock_file, directory=tree, environment=quiet)


def _date() -> str:
    """The seconds since 1970 of the commit: the time of all files."""
    return _git("log", "-1", "--format=%ct")


def _maintainer() -> str:
    return _git("log", "-1", "--format=%an <%ae>")


def _git(*words: str | Path) -> str:
    return _run("git", *words)


def _run(*words: str | Path, directory: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """The output of a program; the modes of its files are the same for every caller. Raises Failure with what it said
    if it fails."""
    inherited = {**os.environ, **(environment or {})}
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False, env=inherited, umask=0o022)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, words[:3]))} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
