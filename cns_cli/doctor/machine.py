"""Checks of the machine: open files, port, disk, Java."""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import shutil
import socket
import subprocess
from pathlib import Path

from cns_backend.optional_dependencies import how_to_install
from cns_cli.doctor.findings import CheckResult, ok, problem, warning
from cns_common.configuration.settings import Settings
from cns_common.process.supervisor import STATUS_FILE, read_status
from cns_common.sqlite.disk_space import RESERVE_FILE, ROOM_BYTES

FILES_WANTED = 4_096
DISK_SHARE_WARNED = 0.05
JAVA_WANTED = 17
JAVA_TIMEOUT_S = 20.0
MIB = 1024 * 1024
_FILES_LINE = re.compile(r"Max open files\s+(\d+|unlimited)")
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_files(settings: Settings) -> CheckResult:
    """The limit of open files, of the running service or else of this shell. Each connection takes one."""
    limit = min(_service_limits(settings), default=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if limit == resource.RLIM_INFINITY or limit >= FILES_WANTED:
        return ok("files", f"{'unlimited' if limit == resource.RLIM_INFINITY else limit} open files are allowed")
    return warning(
        "files",
        f"{limit} open files are allowed, and each connection takes one",
        "start the service after `ulimit -n 65536`, or with LimitNOFILE=65536 in its systemd unit",
    )


def _service_limits(settings: Settings) -> list[int]:
    found = []
    for process in read_status(settings.data / STATUS_FILE):
        try:
            line = _FILES_LINE.search(Path(f"/proc/{process.pid}/limits").read_text(encoding="ascii"))
        except OSError:  # it ended, or this is not Linux
            continue
        if line is not None and line[1] != "unlimited":
            found.append(int(line[1]))
    return found


def check_port(settings: Settings, *, is_serving: bool) -> CheckResult:
    """Whether the service could listen, unless it does. `is_serving`: a CNS answers at the port."""
    where = f"port {settings.port} on {settings.host}"
    if is_serving:
        return ok("port", "the service has it")
    try:
        info = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(info[0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(info[4])
    except OSError as error:
        reason = error.strerror or str(error)
        return problem("port", f"{where} cannot be used: {reason}", "`cns up --port` with another port, or CNS_PORT")
    return ok("port", f"{where} is free")


def check_disk(settings: Settings) -> CheckResult:
    """Room on the disk of the data directory."""
    place = next(path for path in (settings.data.absolute(), *settings.data.absolute().parents) if path.exists())
    disk = shutil.disk_usage(place)
    free = f"{disk.free // MIB} MiB of {disk.total // MIB} MiB are free at {place}"
    reserve = settings.data / RESERVE_FILE
    if disk.free < ROOM_BYTES or (reserve.exists() and not reserve.stat().st_size and settings.reserve_bytes):
        why = "its reserve is used up: " if disk.free >= ROOM_BYTES else ""
        mend = "make room on this disk; `cns queue purge` and `cns pipeline ingest` help"
        return problem("disk", f"the disk is full: {why}{free}", mend)
    if disk.free < settings.reserve_bytes + ROOM_BYTES or disk.free < disk.total * DISK_SHARE_WARNED:
        return warning("disk", free, "make room on this disk, or move the data directory to another one")
    return ok("disk", free)


def check_java() -> CheckResult:
    """Java, which only the pipeline of reports needs."""
    if importlib.util.find_spec("pyspark") is None:
        return ok("java", f"not needed: the pipeline is not installed; to install it, {how_to_install('pipeline')}")
    home = os.environ.get("JAVA_HOME")  # noqa: TID251  # Java's variable
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    mend = f"install Java {JAVA_WANTED}, or set JAVA_HOME; only `cns pipeline` needs it"
    if java is None:
        return warning("java", f"there is no Java{f' in JAVA_HOME={home}' if home else ''}", mend)
    try:
        said = subprocess.run(  # noqa: S603  # the Java that the pipeline would start
            [java, "-version"], capture_output=True, text=True, check=False, timeout=JAVA_TIMEOUT_S
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return warning("java", f"{java} does not run: {error}", mend)
    version = _JAVA_VERSION.search(said)
    if version is None or int(version[1]) < JAVA_WANTED:
        first = (said.strip() or "it says nothing").splitlines()[0]
        return warning("java", f"{java} is not Java {JAVA_WANTED} or newer: {first}", mend)
    return ok("java", f"{java} is Java {version[1]}")
