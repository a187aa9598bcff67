"""Installed as a wheel, and run where folders of its user have the names of its packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.acceptance.running import Up, plain_environment
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
PACKAGES = (
    "cns_common",
    "cqs",
    "cns",
    "cns_backend",
    "workers",
    "cns_server",
    "cns_receiver",
    "cns_pipeline",
    "cns_cli",
)
BUILD_S = 200
NOT_OURS = 'raise RuntimeError("a folder of the user was taken for the service")\n'


pytestmark = pytest.mark.timeout(480)


def run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment of its own; what the service depends on is that of the tests."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", directory, source)
    environment = directory / "venv"
    venv.create(environment)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = directory.glob("cns-*.whl")
    python = environment / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    return environment / "bin"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A working directory with packages of the same names."""
    for package in PACKAGES:
        (tmp_path / "here" / package).mkdir(parents=True)
        (tmp_path / "here" / package / "__init__.py").write_text(NOT_OURS)
    return tmp_path / "here"


def test_it_is_the_wheel(installed: Path, here: Path) -> None:
    code = "from cns_cli.service import supervise; import cns_common.configuration.settings; print(supervise.__file__)"
    done = subprocess.run(
        [installed / "python", "-P", "-c", code], cwd=here, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(installed.parent)), done.stdout


@pytest.mark.parametrize("options", [(), pytest.param(("--api", "2", "--workers", "2"), marks=pytest.mark.extended)])
def test_folders_of_its_packages_names_are_passed_over(installed: Path, here: Path, options: tuple[str, ...]) -> None:
    port, said_path = free_port(), here.parent / "said"
    with said_path.open("wb") as out:
        process = subprocess.Popen(
            [installed / "cns", "up", "--port", str(port), *options],
            cwd=here,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=plain_environment(),
        )
    service = Up(url=f"http://127.0.0.1:{port}", data=here / "data", said_path=said_path, process=process)
    try:
        service.wait_ready()
        assert service.client("sqs").create_queue(QueueName="q")["QueueUrl"].endswith("/q")
        service.cns("account", "list")
    finally:
        code = service.stop()
    assert code == 0 and "starting it again" not in service.said(), service.said()
