"""`python -m lab.bench.sections.audit [--runs 3] [--messages 6000]`: what `Audit=on` costs sends, receives and deletes.

One service has queues with the audit and without, and the runs alternate between them: a busy machine disturbs both.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import uvloop

from lab.bench.sections.runs import SERVICE, served
from lab.harness.server import Server
from lab.load.queues import drain, open_client, receive_delete, send, send_batches
from lab.measure.figures import Figures, median_run

AUDITS = ("off", "on")
CONNECTIONS = (1, 64)
ONE_CONNECTION_SHARE = 8
"""One connection handles one part in so many of the messages."""

Found = dict[tuple[str, int, str], list[Figures]]
"""By workload, connections and audit: a run each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--messages", type=int, default=6_000)
    options = parser.parse_args()
    found: Found = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-audit-") as data,
        served("cns", SERVICE, Path(data)) as server,
    ):
        for run in range(options.runs):
            for connections in CONNECTIONS:
                messages = options.messages if connections > 1 else options.messages // ONE_CONNECTION_SHARE
                for audit in AUDITS if run % 2 == 0 else reversed(AUDITS):
                    for figures in uvloop.run(_measure(server, connections, audit, run, messages)):
                        found.setdefault((figures.workload, connections, audit), []).append(figures)
    print("\n".join(table(found)))


async def _measure(server: Server, connections: int, audit: str, run: int, messages: int) -> list[Figures]:
    client = await open_client(server, connections, run, "unaudited")
    await client.use_queue(f"{audit}-{connections}-{run}", Audit=audit)
    try:
        return [await each(client, messages) for each in (send, receive_delete, send_batches, drain)]
    finally:
        client.close()


def table(found: Found) -> Iterator[str]:
    """The median runs as a Markdown table."""
    yield "| | connections | off: per s, p50, CPU | on: per s, p50, CPU | on ÷ off |"
    yield "|---|---|---|---|---|"
    for workload, connections in dict.fromkeys((workload, connections) for workload, connections, _ in found):
        off, on = [median_run(found[workload, connections, audit]) for audit in AUDITS]
        cells = [f"{run.per_s:,.0f}, {run.p50_ms:.2f} ms, {run.server_us:.0f} µs" for run in (off, on)]
        yield f"| {workload} | {connections} | {cells[0]} | {cells[1]} | {on.per_s / off.per_s:.2f} |"


if __name__ == "__main__":
    main()
