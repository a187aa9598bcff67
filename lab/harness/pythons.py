"""Environments for the versions of Python that the service is for: `python -m lab.harness.pythons 3.12`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.debian.package import MINORS

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = tuple(f"3.{minor}" for minor in MINORS)
LOCKS = ("dev", "test", "clients")


def environment(version: str) -> Path:
    return ROOT / "build" / "pythons" / version


def find_python(version: str) -> Path | None:
    """An interpreter of this version: on the path, or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")  # may be a shim of pyenv that leads nowhere
    found = [*([Path(on_path)] if on_path else []), *sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))]
    for path in found:
        if subprocess.run([path, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0:
            return path
    return None


def make(version: str) -> None:
    """Make the environment from the lock files, with this source; nothing if there is no such interpreter."""
    python = find_python(version)
    if python is None:
        return
    target, uv = environment(version), Path(sys.executable).parent / "uv"
    subprocess.run([python, "-m", "venv", "--clear", target], check=True)  # with pip, which builds the wheel for tests
    install = (uv, "pip", "install", "--quiet", "--python", target, "--no-build-isolation", "--no-deps")
    for lock in LOCKS:
        subprocess.run([*install, "--require-hashes", "-r", ROOT / "requirements" / f"{lock}.lock"], check=True)
    subprocess.run([*install, "--editable", ROOT], check=True)


if __name__ == "__main__":
    make(sys.argv[1])
