"""The images: how each is built, and the variable of docker-compose.yml that names it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.failure import Failure
from deploy.servers.server import print_message
from deploy.servers.settings import Settings
from deploy.servers.software import cassandra

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RELEASE = "bookworm"
"""The Debian release; it has Python 3.11, Java 17 and Redis 7.0."""
PACKAGES = "ca-certificates,python3,python3-venv"
HOST_CONFIGURATION = (
    "/etc/pip.conf",
    "/etc/uv/uv.toml",
    "/etc/apt/apt.conf.d",
    "/etc/ssl/certs/ca-certificates.crt",
)
"""The files by which this machine reaches its package registries: mounted during a build, not part of the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`build` builds the image with the given tag."""

    name: str
    variable: str
    build: Callable[[str], None]

    @property
    def tag(self) -> str:
        return f"localhost/{self.name}"


def build_base(tag: str) -> None:
    """Build Debian with Python from packages."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:  # debootstrap makes devices, which /tmp may forbid
        root = Path(directory, "root")
        _run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, str(root), *_mirror()])
        shutil.rmtree(root / "var/cache/apt")
        shutil.rmtree(root / "var/lib/apt/lists")
        packed = Path(directory, "root.tar")
        _run(["tar", "-C", str(root), "-cf", str(packed), "."])
        _run(["podman", "import", str(packed), tag])


def build_cassandra(tag: str) -> None:
    """Build Cassandra from jars that Maven fetches on this machine."""
    software = Settings().software
    jars = cassandra(software).jars
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory)
        shutil.copytree(jars, context / "jars")
        shutil.copy(software / "fetched.xml", context)
        shutil.copy(HERE / "logback.xml", context)
        shutil.copytree(ROOT / "deploy", context / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
        _build(tag, HERE / "cassandra.Dockerfile", context)


def build_redis(tag: str) -> None:
    with tempfile.TemporaryDirectory() as context:
        _build(tag, HERE / "redis.Dockerfile", Path(context))


def build_cns(tag: str) -> None:
    _build(tag, ROOT / "deploy" / "Dockerfile", ROOT)


BASE = Image(name="cns-base", variable="CNS_BASE_IMAGE", build=build_base)
IMAGES: Mapping[str, Image] = {
    "base": BASE,
    "cassandra": Image(name="cns-cassandra", variable="CNS_CASSANDRA_IMAGE", build=build_cassandra),
    "redis": Image(name="cns-redis", variable="CNS_REDIS_IMAGE", build=build_redis),
    "cns": Image(name="cns", variable="CNS_IMAGE", build=build_cns),
}
"""In the order of building: the first is the base of the others."""


def exists(image: Image) -> bool:
    return subprocess.run(["podman", "image", "exists", image.tag], check=False).returncode == 0  # noqa: S607  # found by PATH, as the user would


def _build(tag: str, file: Path, context: Path) -> None:
    """Build in Docker's format: the OCI format drops health checks."""
    mounts = [f"--volume={path}:{path}:ro" for path in HOST_CONFIGURATION if Path(path).exists()]
    command = ["podman", "build", "--format=docker", "--network=host", f"--build-arg=BASE={BASE.tag}", *mounts]
    _run([*command, f"--tag={tag}", f"--file={file}", str(context)])


def _mirror() -> list[str]:
    """Return the mirror that this machine's apt uses for the release, if any; debootstrap has a default."""
    select = ["Created-By: Packages", f"Codename: {RELEASE}", "Component: main"]
    output = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", *select],  # noqa: S607  # found by PATH, as the user would
        capture_output=True,
        text=True,
        check=False,
    )
    return output.stdout.split()[:1]


def _run(command: Sequence[str]) -> None:
    """Run a command with its output on standard error: standard output is for the file `.env`."""
    if not shutil.which(command[0]):
        raise Failure(f"missing on this machine: {command[0]}")
    print_message(f"images: {' '.join(command)}")
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode != 0:
        raise Failure(f"{command[0]} failed, see above")
