"""`cns restart`: replaces the code of a running `cns up` by the installed code, and keeps its sockets."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cns_cli.options import Data, Json
from cns_cli.output import print_json
from cns_cli.service.processes import POLL_INTERVAL_S
from cns_cli.service.supervise import LOCK_FILE, REFUSED_FILE
from cns_common.configuration.settings import load_settings
from cns_common.data_directory import lock_owner
from cns_common.errors import StartError
from cns_common.process.supervisor import RESTART_SIGNAL, STATUS_FILE, ChildStatus, read_status

EXIT_RESTART_FAILED = 1


def restart(data: Data = None, json: Json = False) -> None:
    """Restart the running service with the installed code. No call is refused: callers wait.

    The settings of `cns up` stay. The command returns when the new processes work. If the code does not start with
    these settings, the restart is refused, and the service runs on unchanged.

    Example: cns restart --data /var/lib/cns
    """
    processes = restart_service(load_settings(data).data)
    if json:
        print_json([{"name": process.name, "pid": process.pid} for process in processes])
    else:
        for process in processes:
            print(f"{process.name}: process {process.pid}")


def restart_service(directory: Path) -> list[ChildStatus]:
    """Restart the `cns up` of this directory, and return its new processes. Raises StartError."""
    supervisor = supervisor_of(directory)
    if not supervisor:
        raise StartError(f"no `cns up` runs on {directory}", EXIT_RESTART_FAILED)
    before = read_status(directory / STATUS_FILE)
    if not any(process.ready and _parent(process.pid) == supervisor for process in before):
        text = f"process {supervisor} is starting, or is of another version or machine: stop it, and start it again"
        raise StartError(text, EXIT_RESTART_FAILED)
    refused = directory / REFUSED_FILE
    refused.unlink(missing_ok=True)
    try:
        os.kill(supervisor, RESTART_SIGNAL)
    except PermissionError:
        raise StartError(f"process {supervisor} is another user's", EXIT_RESTART_FAILED) from None
    old, deaths = {process.pid for process in before}, sum(process.restarts for process in before)
    replaced = not any(process.crash_loop for process in before)
    while supervisor_of(directory) == supervisor:
        found = read_status(directory / STATUS_FILE)
        if found and all(process.ready and process.pid not in old for process in found):
            return found
        replaced = replaced or sum(process.restarts for process in found) < deaths  # the new program counts from 0
        if replaced and any(process.crash_loop for process in found):
            raise StartError("the new processes die: see what `cns up` printed", EXIT_RESTART_FAILED)
        if refused.exists():
            raise StartError(f"not restarted: {refused.read_text()}", EXIT_RESTART_FAILED)
        time.sleep(POLL_INTERVAL_S)  # noqa: TID251  # another process writes the files
    raise StartError("the service has ended: see what `cns up` printed", EXIT_RESTART_FAILED)


def supervisor_of(directory: Path) -> int:
    """The process id of the `cns up` of this directory; 0 when none runs."""
    return lock_owner(directory, LOCK_FILE)


def _parent(pid: int) -> int:
    """Returns 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
