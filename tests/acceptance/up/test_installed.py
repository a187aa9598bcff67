"""Installed as a wheel, and run where folders of its user have the names of its packages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.harness.ports import free_port
from lab.harness.processes import Process, plain_environment
from lab.harness.running import Up
from tests.wheel import PACKAGES

NOT_OURS = 'raise RuntimeError("a folder of the user was taken for the service")\n'


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A working directory with packages of the same names."""
    for package in PACKAGES:
        (tmp_path / "here" / package).mkdir(parents=True)
        (tmp_path / "here" / package / "__init__.py").write_text(NOT_OURS)
    return tmp_path / "here"


@pytest.mark.extended
def test_it_is_the_wheel(installed: Path, here: Path) -> None:
    code = "from cns_cli.service import supervise; import cns_common.configuration.settings; print(supervise.__file__)"
    done = subprocess.run(
        [installed / "python", "-P", "-c", code], cwd=here, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(installed.parent)), done.stdout


def test_packages_of_the_wheel_have_names_of_their_own(installed: Path) -> None:
    """A package `workers` of the user's, installed beside it, stays importable."""
    (site,) = installed.parent.glob("lib/python*/site-packages")
    names = {path.name for path in site.iterdir() if (path / "__init__.py").exists()} - {"pip", "setuptools"}
    assert names - {"pkg_resources", "_distutils_hack"} == set(PACKAGES)
    assert all(re.fullmatch(r"cns(_\w+)?|cqs", name) for name in PACKAGES)


@pytest.mark.parametrize("options", [(), pytest.param(("--api", "2", "--workers", "2"), marks=pytest.mark.extended)])
def test_folders_of_its_packages_names_are_passed_over(installed: Path, here: Path, options: tuple[str, ...]) -> None:
    port = free_port()
    words = ["up", "--port", str(port), *options]
    process = Process([installed / "cns", *words], here.parent / "log", plain_environment(), port=port, cwd=here)
    process.start()
    service = Up(url=process.url, data=here / "data", process=process)
    try:
        service.wait_ready()
        assert service.client("sqs").create_queue(QueueName="q")["QueueUrl"].endswith("/q")
        service.cns("account", "list")
    finally:
        code = service.stop()
    assert code == 0 and "starting it again" not in service.said(), service.said()
