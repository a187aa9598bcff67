"""Samples the resident memory of a service's processes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from cns_common.process.supervisor import read_status
from lab.harness.server import Server
from lab.harness.usage import resident_bytes
from lab.load.polls import BYTES_PER_MIB

POLL_INTERVAL_S = 1.0


@asynccontextmanager
async def sampled_memory(server: Server) -> AsyncIterator[Mapping[str, Sequence[float]]]:
    """Samples in MiB, by process, all at the same times."""
    samples: defaultdict[str, list[float]] = defaultdict(list)
    pids = {status.name: status.pid for status in read_status(server.data / "store" / "processes.json")}

    def take() -> None:
        for name, pid in pids.items():
            samples[name].append(resident_bytes(pid) / BYTES_PER_MIB)

    async def sample_forever() -> None:
        while True:
            take()
            await asyncio.sleep(POLL_INTERVAL_S)

    task = asyncio.create_task(sample_forever())
    try:
        yield samples
    finally:
        take()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
