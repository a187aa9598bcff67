"""Measures the fixed cost of each start: CPU seconds of Java and Python, and the sizes of the written files.

    python -m lab.bench.pipeline.start [--events 30000]

Commands are run as a person runs them, with the archive of Java's classes that an earlier job left.
"""

from __future__ import annotations

import argparse
import ctypes
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from cns_common.durations import DAY_MS
from cns_common.events.files import encoder, origin_of
from cns_common.events.schema import QueueCounted, RequestsCounted
from cns_pipeline.class_archive import DIRECTORY, archive_path
from cns_pipeline.session import open_session
from lab.bench.pipeline.archive import PR_SET_CHILD_SUBREAPER
from lab.bench.pipeline.archive import measure as measure_command
from lab.bench.pipeline.made_events import write_day
from lab.bench.pipeline.made_messages import write_messages
from lab.bench.pipeline.measured import MIB, measure

START_MS = 20_000 * DAY_MS
MESSAGES = 10_000
EVENTS_PER_MESSAGE = 3
MINUTE_MS = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab.bench.pipeline.start")
    parser.add_argument("--events", type=int, default=30_000)
    events = parser.parse_args().events
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with TemporaryDirectory() as directory:
        data = Path(directory, "data")
        write_day(data / "events", START_MS, events)
        measure_command("ingest, first", events, "pipeline", "ingest", "--data", data)
        measure_command("ingest, nothing new", 0, "pipeline", "ingest", "--data", data)
        measure_command("report in a new session", events, "pipeline", "report", "--data", data)
        print_sizes(Path(directory, "messages"))
    with ExitStack() as stack:
        session = measure(lambda: stack.enter_context(open_session("bench")))
        print(f"a session: {session.cpu_s:.1f} CPU s")
    archive = archive_path(DIRECTORY)
    if archive is not None and archive.exists():
        print(f"archive of Java's classes: {archive.stat().st_size / MIB:,.0f} MiB")


def print_sizes(directory: Path) -> None:
    """Print the bytes of events in a segment."""
    write_messages(directory, START_MS, MESSAGES)
    written = sum([path.stat().st_size for path in directory.rglob("*.jsonl")])
    print(f"an audit event: {written / (EVENTS_PER_MESSAGE * MESSAGES):.0f} bytes")
    account = "111111111111"
    requests = RequestsCounted(
        at_ms=START_MS,
        since_ms=START_MS - MINUTE_MS,
        account=account,
        service="sqs",
        operation="ReceiveMessage",
        requests=6_000,
        errors=0,
        request_bytes=900_000,
        response_bytes=3_000_000,
    )
    queue = QueueCounted(
        at_ms=START_MS,
        since_ms=START_MS - MINUTE_MS,
        queue=f"arn:aws:sqs:us-east-1:{account}:orders",
        sent=6_000,
        received=6_000,
        deleted=6_000,
        visible=0,
        in_flight=10,
        delayed=0,
        oldest_age_s=0,
    )
    for one in (requests, queue):
        line = origin_of("b" * 16) + b"1000," + encoder.encode(one)[1:] + b"\n"
        print(f"{type(one).__name__}: {len(line)} bytes")


if __name__ == "__main__":
    main()
