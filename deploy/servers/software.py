"""What the servers and the tests take from elsewhere: packages of the system, and Cassandra's jars from Maven."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.failure import TAIL_LINES, Failure
from deploy.servers.lock import alone
from deploy.servers.server import say
from deploy.servers.settings import HERE

JAVA_RELEASE = 17  # Cassandra 5.0 knows 11 and 17; jvm.args is for this one
FETCH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
OTHER_SYSTEMS = re.compile(r"osx|windows|riscv64|macos")

Package = tuple[str, Callable[[], object]]
"""What may be missing: its Debian package, as a dependency is written, and how to see whether it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java of the right release; `version` is its whole name."""

    binary: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassandra:
    """What a node is run with: its jars, and the file, once there is one, from which loaded classes are mapped."""

    java: Java
    jars: Path
    archive: Path

    @property
    def new_archive(self) -> Path:
        """Where a node writes the archive; it counts only after a whole, orderly end."""
        return self.archive.with_suffix(".new")

    @property
    def class_path(self) -> str:
        """In one order always: the archive fits no other."""
        return ":".join(str(jar) for jar in sorted(self.jars.glob("*.jar")))


def find_java() -> Java | None:
    """In JAVA_HOME, on the path, or where Debian puts it beside a newer default."""
    home = os.environ.get("JAVA_HOME")
    places = [Path(home, "bin/java")] if home else []
    places += [Path(found)] if (found := shutil.which("java")) else []
    places += sorted(Path("/usr/lib/jvm").glob(f"*-{JAVA_RELEASE}-*/bin/java"))
    versions = ((str(place), _java_version(place)) for place in places if place.exists())
    fit = (Java(binary=place, version=version) for place, version in versions if _release(version) == JAVA_RELEASE)
    return next(fit, None)


def find_haproxy() -> str | None:
    return _find_service("haproxy")


def find_exim() -> str | None:
    return _find_service("exim4")


def _find_service(name: str) -> str | None:
    """On the path, or where Debian puts it, which is only on root's."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


PACKAGES: Mapping[str, Package] = {
    "java": (f"openjdk-{JAVA_RELEASE}-jre-headless", find_java),
    "maven": ("maven", lambda: shutil.which("mvn")),
    "redis": ("redis-server", lambda: shutil.which("redis-server")),
    "haproxy": ("haproxy", find_haproxy),
    "exim": ("exim4-daemon-light", find_exim),
    "chromium": ("chromium", lambda: shutil.which("chromium")),
}


def require(*names: str) -> None:
    """Have these of `PACKAGES` on the machine."""
    have(*(PACKAGES[name] for name in names))


def have(*packages: Package) -> None:
    """Have these on the machine: root on Debian installs what is missing, everybody else is told."""
    missing = [package for package, found in packages if not found()]
    if not missing:
        return
    wanted = ", ".join(missing)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Failure(f"missing on this machine: install {wanted}, or let root run this command on Debian")
    say(f"installing {wanted}")
    _run(["apt-get", "-qq", "update"], "apt-get update failed")
    _run(["apt-get", "-qq", "-y", "--no-install-recommends", "satisfy", *missing], f"could not install {wanted}")
    still = [package for package, found in packages if not found()]
    if still:
        raise Failure(f"installed but not found: {', '.join(still)}")


def cassandra(software: Path) -> Cassandra:
    """Everything that a node needs, fetched if it is not there."""
    jars = software / "jars"
    with alone(software):
        _fetch(jars, software / "fetched.xml")
    require("java")
    java = find_java()
    assert java is not None
    return Cassandra(java=java, jars=jars, archive=software / f"classes-{java.version}.jsa")


def _fetch(jars: Path, fetched: Path) -> None:
    """The jars that pom.xml asks for; `fetched` is a copy of the one they came by, written last."""
    wanted = (HERE / "pom.xml").read_text()
    if fetched.exists() and fetched.read_text() == wanted:
        return
    require("java", "maven")
    say("cassandra: fetching 67 MiB of jars, once")
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
    # a package's own service must not start: run level 1 is the one in which none does
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise Failure("\n".join([f"{complaint}:", *said[-TAIL_LINES:]]))


def _java_version(binary: Path) -> str:
    done = subprocess.run([binary, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([\w.+-]+)"', done.stderr)
    return found[1] if found else ""


def _release(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdigit() else 0
