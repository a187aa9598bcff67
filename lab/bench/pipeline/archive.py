"""Measures `cns pipeline archive` and `cns replay` on made messages: seconds, and CPU seconds of all processes.

    python -m lab.bench.pipeline.archive [--messages 200000]

The archive is one topic's in an embedded store without a service; a message is 1 KiB with two attributes. The replay
goes to a subscription: each message becomes a durable job.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cns.archives.model import ArchivedMessage, archive_key
from cns.notification import Notification
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.ids import uuid_text
from lab.load.archived_topic import archived_topic, fill_archive

BIN = Path(sys.executable).parent
BODY = "x" * 1024
CHUNK = 2_000
DAYS = 7
REPLAYED = 9_000
"""A replay pauses when 10,000 jobs wait, and no worker runs here."""
PR_SET_CHILD_SUBREAPER = 36
"""A Linux option: processes whose parent has ended become children of this one, which counts their CPU time."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab.bench.pipeline.archive")
    parser.add_argument("--messages", type=int, default=200_000)
    messages = parser.parse_args().messages
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "data")
        topic, subscription = asyncio.run(fill(data, messages))
        table, period = data / "pipeline", ("--since=-30d",)
        replay = ("replay", "--topic", topic)
        print(f"{messages} messages, {size_mib(data)} MiB in the store")
        measure("archive, everything", messages, "pipeline", "archive", "--data", data)
        print(f"{size_mib(table)} MiB in the table")
        measure("archive, nothing new", 0, "pipeline", "archive", "--data", data)
        measure("count the live archive", messages, *replay, "--dry-run", "--data", data, *period)
        measure("count the table", messages, *replay, "--dry-run", "--from-table", table, *period)
        some = min(messages, REPLAYED)
        latest = f"--since=-{DAYS * 86_400 * some // messages}s"
        measure("replay to a subscription", some, *replay, "--to", subscription, "--data", data, latest)


def measure(what: str, messages: int, *words: str | Path) -> None:
    """Run a command and print what it took, together with the processes that it leaves behind, which are Java's."""
    before, started_s = cpu_s(), time.monotonic()
    subprocess.run(
        [BIN / "cns", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    elapsed_s = time.monotonic() - started_s
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used_s = cpu_s() - before
    rate = f", {messages / elapsed_s:,.0f} messages/s, {messages / used_s:,.0f} per CPU second" if messages else ""
    print(f"{what:<26} {elapsed_s:7.1f} s {used_s:7.1f} CPU s{rate}", flush=True)


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def size_mib(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) // 2**20


async def fill(data: Path, messages: int) -> tuple[str, str]:
    """Make the store. Returns the ARNs of the topic and of its subscription."""
    now_ms = Clock().now_ms()
    topic = archived_topic("topic", now_ms, began_days_ago=8, kept_days=365)
    subscription = await fill_archive(data, topic, made_messages(topic.arn, messages, now_ms))
    return topic.arn, subscription.arn


def made_messages(topic_arn: str, messages: int, now_ms: int) -> Iterator[list[ArchivedMessage]]:
    """Messages of the last seven days, the oldest first."""
    for start in range(0, messages, CHUNK):
        notifications = [
            Notification(
                id=uuid_text(),
                topic_arn=topic_arn,
                timestamp_ms=now_ms - DAYS * DAY_MS + number * DAYS * DAY_MS // messages,
                texts={"default": f"{number} {BODY}"},
                attributes={"kind": ("String", "made"), "number": ("Number", str(number))},
            )
            for number in range(start, min(start + CHUNK, messages))
        ]
        yield [ArchivedMessage(each.timestamp_ms, archive_key(each), now_ms + DAY_MS, each) for each in notifications]


if __name__ == "__main__":
    main()
