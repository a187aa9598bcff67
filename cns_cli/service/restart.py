"""`cns restart`: the code as it is installed now takes the place of a running `cns up`, with the same sockets."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cns_cli.options import Data, Json
from cns_cli.output import print_json
from cns_cli.service.supervise import LOCK_FILE, MODULES, import_modules
from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE, lock_directory
from cns_common.errors import StartError
from cns_common.process.supervisor import RESTART_SIGNAL, STATUS_FILE, ChildStatus, read_status

EXIT_RESTART_FAILED = 1
POLL_INTERVAL_S = 0.05


def restart(data: Data = None, json: Json = False) -> None:
    """Restart the running service with the code that is installed now. Nobody is refused meanwhile: callers wait.

    Settings are those that `cns up` was started with. It ends when the new processes do their work. Code that cannot be
    imported is refused: the service goes on as it is.

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
    import_modules(MODULES)
    pid = supervisor_of(directory)
    if not pid:
        raise StartError(f"no `cns up` runs on {directory}", EXIT_DATA_UNUSABLE)
    before = read_status(directory / STATUS_FILE)
    if not any(process.ready for process in before):
        text = f"process {pid} is starting, or of a version that cannot be restarted this way: stop it, then start it"
        raise StartError(text, EXIT_RESTART_FAILED)
    os.kill(pid, RESTART_SIGNAL)
    return _wait_for_successors(directory, pid, {process.pid for process in before})


def supervisor_of(directory: Path) -> int:
    """The process id of the `cns up` of this directory; 0 when none runs."""
    if not (directory / LOCK_FILE).exists():
        return 0
    try:
        os.close(lock_directory(directory, LOCK_FILE))
    except StartError:
        return int((directory / LOCK_FILE).read_text() or "0")
    return 0


def _wait_for_successors(directory: Path, supervisor: int, before: set[int]) -> list[ChildStatus]:
    """Return the new processes when all of them do their work. Raises StartError when the supervisor ends instead."""
    while True:
        found = read_status(directory / STATUS_FILE)
        if found and all(process.ready and process.pid not in before for process in found):
            return found
        try:
            os.kill(supervisor, 0)
        except ProcessLookupError:
            raise StartError("the new code does not start: see what `cns up` printed", EXIT_RESTART_FAILED) from None
        time.sleep(POLL_INTERVAL_S)  # noqa: TID251  # another process writes the file
