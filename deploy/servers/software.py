"""Software for the servers and the tests: packages of the system, and Cassandra's jars from Maven."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.failure import TAIL_LINES, Failure
from deploy.servers.lock import exclusive_lock
from deploy.servers.server import print_message
from deploy.servers.settings import HERE

JAVA_RELEASE = 17  # Cassandra 5.0 supports 11 and 17; jvm.args is for this one
FETCH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
OTHER_SYSTEMS = re.compile(r"osx|windows|riscv64|macos")

Package = tuple[str, Callable[[], object]]
"""A Debian package, written as a dependency, and a function that finds its program if it is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java of the required release; `version` is its full version."""

    binary: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassandra:
    """The software of a node: Java, jars, and the class archive, which exists after the first stop."""

    java: Java
    jars: Path
    archive: Path

    @property
    def new_archive(self) -> Path:
        """The file that a node writes; it becomes the archive only after an orderly stop."""
        return self.archive.with_suffix(".new")

    @property
    def class_path(self) -> str:
        """The jars in a fixed order, which the archive requires."""
        return ":".join(str(jar) for jar in sorted(self.jars.glob("*.jar")))


def find_java() -> Java | None:
    """Find Java in JAVA_HOME, on the path, or where Debian installs it beside a newer default."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home, "bin/java")] if home else []
    candidates += [Path(found)] if (found := shutil.which("java")) else []
    candidates += sorted(Path("/usr/lib/jvm").glob(f"*-{JAVA_RELEASE}-*/bin/java"))
    versions = ((str(path), _java_version(path)) for path in candidates if path.exists())
    fitting = (Java(binary=path, version=version) for path, version in versions if _release(version) == JAVA_RELEASE)
    return next(fitting, None)


def find_haproxy() -> str | None:
    return _find_service("haproxy")


def find_nginx() -> str | None:
    return _find_service("nginx")


def find_exim() -> str | None:
    return _find_service("exim4")


def _find_service(name: str) -> str | None:
    """Find a program on the path or in /usr/sbin, which is only on root's path."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


PACKAGES: Mapping[str, Package] = {
    "java": (f"openjdk-{JAVA_RELEASE}-jre-headless", find_java),
    "maven": ("maven", lambda: shutil.which("mvn")),
    "redis": ("redis-server", lambda: shutil.which("redis-server")),
    "haproxy": ("haproxy", find_haproxy),
    "nginx": ("nginx-light", find_nginx),
    "exim": ("exim4-daemon-light", find_exim),
    "chromium": ("chromium", lambda: shutil.which("chromium")),
}


def require(*names: str) -> None:
    """Ensure that these of `PACKAGES` are installed."""
    ensure_installed(*(PACKAGES[name] for name in names))


def ensure_installed(*packages: Package) -> None:
    """Install missing packages as root on Debian; otherwise raise a Failure that names them."""
    missing = [package for package, found in packages if not found()]
    if not missing:
        return
    wanted = ", ".join(missing)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Failure(f"missing on this machine: install {wanted}, or let root run this command on Debian")
    print_message(f"installing {wanted}")
    _run(["apt-get", "-qq", "update"], "apt-get update failed")
    _run(["apt-get", "-qq", "-y", "--no-install-recommends", "satisfy", *missing], f"could not install {wanted}")
    still = [package for package, found in packages if not found()]
    if still:
        raise Failure(f"installed but not found: {', '.join(still)}")


def cassandra(software: Path) -> Cassandra:
    """Return the software of a node; fetch it if it is missing."""
    jars = software / "jars"
    with exclusive_lock(software):
        _fetch(jars, software / "fetched.xml")
    require("java")
    java = find_java()
    assert java is not None
    return Cassandra(java=java, jars=jars, archive=software / f"classes-{java.version}.jsa")


def _fetch(jars: Path, fetched: Path) -> None:
    """Fetch the jars of pom.xml. `fetched` is a copy of the pom.xml that they came with, written last."""
    wanted = (HERE / "pom.xml").read_text()
    if fetched.exists() and fetched.read_text() == wanted:
        return
    require("java", "maven")
    print_message("cassandra: fetching 67 MiB of jars, once")
    shutil.rmtree(jars, ignore_errors=True)
    for archive in jars.parent.glob("*.jsa"):
        archive.unlink()
    command = ["mvn", "-B", "-q", "-ntp", "-f", str(HERE / "pom.xml"), FETCH]
    _run([*command, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"], "Maven could not fetch Cassandra's jars")
    for jar in jars.glob("*.jar"):
        if OTHER_SYSTEMS.search(jar.name):
            jar.unlink()
    fetched.write_text(wanted)


def _run(command: list[str], complaint: str) -> None:
    # run level 1 keeps a package's own service from starting
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip().splitlines()
        raise Failure("\n".join([f"{complaint}:", *output[-TAIL_LINES:]]))


def _java_version(binary: Path) -> str:
    done = subprocess.run([binary, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([\w.+-]+)"', done.stderr)
    return found[1] if found else ""


def _release(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdigit() else 0
