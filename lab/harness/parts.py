"""The programs that tests need beside Python, and what happens where one is missing.

`provide` installs parts before a run, as root on Debian, and returns those still missing; for a part that Debian does
not have a page says how to get it. A test that needs a missing part fails. `tests.run_stages` sets `MISSING`, except
with `CI`: then the test is not run, and the summary of the run names the part and the command that installs it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pytest

from deploy.servers.failure import Failure
from deploy.servers.software import PACKAGES, Package, ensure_installed
from lab.harness.language_tools import GO, JDK, NODE, NPM, find_terraform
from lab.harness.pythons import VERSIONS, find_python
from lab.harness.wrong_clock import find_faketime

MISSING = "TEST_PARTS_MISSING"
"""A variable: JSON of the missing parts and the commands that install them. Tests that need them are not run."""
RUNNING_TEST = "PYTEST_CURRENT_TEST"
"""A variable that pytest sets while a test runs."""


@dataclass(frozen=True, slots=True)
class Part:
    packages: tuple[Package, ...]
    is_elsewhere: Callable[[], bool] = lambda: False
    """Whether the environment has it otherwise, as a server that runs already."""
    page: str = ""
    """The page that says how to get what is no package of Debian."""


def _has_namespaces() -> bool:
    """Whether this user may mount a file system in a name space of its own."""
    program = shutil.which("unshare")
    words = ["--map-root-user", "--mount", "true"]
    return program is not None and subprocess.run([program, *words], capture_output=True, check=False).returncode == 0


def _has_python(version: str) -> bool:
    return find_python(version) is not None


PARTS: Mapping[str, Part] = {
    "cassandra": Part((PACKAGES["java"], PACKAGES["maven"]), lambda: bool(os.environ.get("CNS_CASSANDRA"))),
    "redis": Part((PACKAGES["redis"],)),
    "haproxy": Part((PACKAGES["haproxy"],)),
    "nginx": Part((PACKAGES["nginx"],)),
    "exim": Part((PACKAGES["exim"],)),
    "chromium": Part((PACKAGES["chromium"],)),
    "java": Part((PACKAGES["java"],)),
    "jdk": Part((JDK, PACKAGES["maven"])),
    "node": Part((NODE, NPM)),
    "go": Part((GO,)),
    "curl": Part((("curl", lambda: shutil.which("curl")),)),
    "jq": Part((("jq", lambda: shutil.which("jq")),)),
    "php": Part((("php-cli", lambda: shutil.which("php")),)),
    "faketime": Part((("faketime", find_faketime),)),
    "tinyproxy": Part((("tinyproxy", lambda: shutil.which("tinyproxy")),)),
    "systemd": Part((("systemd", lambda: shutil.which("systemd-analyze")),)),
    "namespaces": Part((("util-linux", _has_namespaces),)),
    "terraform": Part((), lambda: find_terraform() is not None, "docs/guides/terraform.md"),
    **{f"python{version}": Part((), partial(_has_python, version), "CONTRIBUTING.md") for version in VERSIONS},
}


def provide(names: Iterable[str]) -> dict[str, str]:
    """Install missing parts. Returns the parts that are still missing, with the commands that install them."""
    missing = {}
    for name in names:
        part = PARTS[name]
        if part.is_elsewhere():
            continue
        if part.page:
            missing[name] = f"see {part.page}"
            continue
        try:
            ensure_installed(*part.packages)
        except Failure as failure:
            print(f"{name}: {failure}", flush=True)
            missing[name] = install_command(name)
    return missing


def install_command(name: str) -> str:
    wanted = " ".join(f"'{package}'" for package, found in PARTS[name].packages if not found())
    return f"apt-get satisfy {wanted}"


def need(name: str) -> None:
    """Skip the running test if `MISSING` names this part."""
    missing: dict[str, str] = json.loads(os.environ.get(MISSING) or "{}")
    if name in missing and RUNNING_TEST in os.environ:
        pytest.skip(f"{name} is missing: {missing[name]}")  # the summary names it; with CI set the test fails instead
