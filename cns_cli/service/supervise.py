"""The processes of `cns up`, and the order in which they stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from cns_common.data_directory import lock_directory
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cns_common.process.supervisor import EXIT_CODES_FINAL, STATUS_FILE, Child, Supervisor

LOCK_FILE = "up.lock"
STOP_S = 40.0
"""A process that was told to stop ends itself within 38 s, see `cns_common.process.stop_limit`. One that cannot even do
so is killed."""


def run_up(api_processes: int, workers: int) -> int:
    """Run until a signal stops it; return the exit code."""
    data = Path(os.environ.get("CNS_DATA") or "data")  # noqa: TID251  # reading all settings takes too long here
    missing = [path for path in (data, *data.parents) if not path.exists()]
    try:
        lock_directory(data, LOCK_FILE)  # before a second worker can disturb a running one
        code = asyncio.run(_run(children(api_processes, workers), data / STATUS_FILE))
        if code == EXIT_SETTINGS_WRONG:
            _print_settings_errors()
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)  # for the person who started it
        code = error.exit_code
    if code in EXIT_CODES_FINAL:
        _remove_created(missing)
    return code


def _remove_created(directories: list[Path]) -> None:
    """Remove the empty directories that a failed start created, the innermost first."""
    with contextlib.suppress(OSError):
        for position, directory in enumerate(directories):
            if position == 0 and [entry.name for entry in directory.iterdir()] == [LOCK_FILE]:
                (directory / LOCK_FILE).unlink()
            directory.rmdir()


async def _run(processes: list[Child], status_path: Path) -> int:
    return await Supervisor(processes, status_path, _stop_delay_s() + STOP_S).run()


def _stop_delay_s() -> float:
    """CNS_STOP_DELAY_S; 0 where it is no number: then the processes do not start."""
    try:
        return float(os.environ.get("CNS_STOP_DELAY_S") or 0)  # noqa: TID251  # reading all settings takes too long here
    except ValueError:
        return 0.0


def _print_settings_errors() -> None:
    """Print the errors once for all processes, which report them by their exit code only."""
    from cns_common.configuration.settings import load_settings  # slow to import

    load_settings()


def children(api_processes: int, workers: int) -> list[Child]:
    """Return the processes: one API process hosts the store itself, several share a store process, and in the cluster
    form there is none. Workers stop first, the store last."""
    worker_processes = [Child(name, _command("worker"), stop_rank=0) for name in _names("worker", workers)]
    cluster = os.environ.get("CNS_STORE") == "cassandra"  # noqa: TID251  # as above
    if api_processes == 1 and not cluster:
        return [Child("api", _command("api-store"), stop_rank=1), *worker_processes]
    apis = [Child(f"api-{number}", _command("api"), stop_rank=1) for number in range(1, api_processes + 1)]
    stores = [] if cluster else [Child("store", _command("store"), stop_rank=2)]
    return [*stores, *apis, *worker_processes]


def _names(role: str, n: int) -> list[str]:
    return [role] if n == 1 else [f"{role}-{number}" for number in range(1, n + 1)]


def _command(role: str) -> list[str]:
    """Return the command line. `-P` keeps packages of the working directory, such as `workers`, from being imported."""
    return [sys.executable, "-P", "-m", "cns_cli.service.processes", role]
