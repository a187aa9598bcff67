"""An archive of the Java classes that a job loads: it halves the time to start a session (ADR 0015).

Java reads it instead of 280 jars, and ignores one of other jars. The first job of an environment writes it as it ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark import SparkContext

DIRECTORY = Path(sys.prefix, "share", "cns")
OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_PREFIX = "spark-"
EXIT_S = 120.0
"""The limit for Java to write an archive and exit. Then it is killed, and a later job writes the archive."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Without it, Java prints each class that it cannot archive on standard output."""


def archive_path(*directories: Path) -> Path | None:
    """The path of the archive for this Java and PySpark: an existing file, else a writable place, else None."""
    name = _name()
    archives = [directory / name for directory in directories] if name else []
    found = [archive for archive in archives if archive.exists()] or [
        archive for archive in archives if _is_writable(archive.parent)
    ]
    return found[0] if found else None


def _name() -> str:
    """The name of the archive; empty if this Java supports none."""
    home = os.environ.get("JAVA_HOME")  # noqa: TID251  # Java's variable
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if java is None:
        return ""
    binary = Path(java).resolve()
    base = binary.parents[1] / "lib" / "server" / "classes.jsa"
    options = [os.environ.get(name, "") for name in OPTIONS]  # noqa: TID251  # Java's variables
    if not base.exists() or "-Xshare" in " ".join(options):  # without the base, Java would not start
        return ""
    identity = f"{binary} {binary.stat().st_mtime_ns} {pyspark.__version__} {Path(pyspark.__file__).parent}"
    return f"{_PREFIX}{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def options_to_use(archive: Path | None) -> str:
    """The options for Java, after a space; empty without an archive."""
    return f" {QUIET} -XX:SharedArchiveFile={archive}" if archive is not None and archive.exists() else ""


def options_to_make(archive: Path) -> str:
    return f" {QUIET} -XX:ArchiveClassesAtExit={_unfinished(archive)}"


@contextmanager
def finished_at_end(archive: Path | None) -> Iterator[None]:
    """At the end of the block, wait until Java wrote the archive and exited; then publish the file."""
    gateway = SparkContext._gateway
    if archive is None or gateway is None:
        yield
        return
    process: subprocess.Popen[bytes] = gateway.proc
    try:
        yield
    except BaseException:
        process.kill()  # the archive is given up
        raise
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    assert process.stdin is not None  # PySpark stops Java by closing it
    process.stdin.close()
    try:
        code = process.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code == 0:
        _replace_others(archive)
    else:
        _unfinished(archive).unlink(missing_ok=True)


def _replace_others(archive: Path) -> None:
    """Publish the new file, and remove those of earlier versions of Java or PySpark and of killed jobs."""
    with contextlib.suppress(FileNotFoundError):  # another job published its own, and removed this one
        _unfinished(archive).rename(archive)
        for other in archive.parent.glob(f"{_PREFIX}*"):
            if other != archive:
                other.unlink(missing_ok=True)


def _unfinished(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.{os.getpid()}")


def _is_writable(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
    return os.access(directory, os.W_OK)
