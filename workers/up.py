"""`cns up`: which processes there are, and in what order they stop."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from common.supervisor import Child, Supervisor

STATUS_FILE = "processes.json"


def run_up(api_processes: int) -> int:
    """Run until a signal comes; returns the exit code."""
    data = Path(os.environ.get("CNS_DATA") or "data")
    with suppress(OSError):  # the store host says what is wrong with it
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
    return asyncio.run(_run(children(api_processes), data / STATUS_FILE))


async def _run(processes: list[Child], status_path: Path) -> int:
    return await Supervisor(processes, status_path).run()


def children(api_processes: int) -> list[Child]:
    """One API process hosts the store itself; several share a store process. The worker stops first, the store last."""
    worker = Child("worker", _command("worker"), stop_rank=0)
    if api_processes == 1:
        return [Child("api", _command("api-store"), stop_rank=1), worker]
    apis = [Child(f"api-{number}", _command("api"), stop_rank=1) for number in range(1, api_processes + 1)]
    return [Child("store", _command("store"), stop_rank=2), *apis, worker]


def _command(role: str) -> list[str]:
    return [sys.executable, "-m", "workers.process", role]
