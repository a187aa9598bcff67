"""The standstill of `cns migrate`, both ways: of an installation without messages, and by message of each kind."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from lab.bench.tables import table
from lab.harness.cluster import fresh_store
from lab.harness.processes import BIN, plain_environment
from lab.harness.running import running

MESSAGES = 50_000
QUEUES = 10
GROUPS = 50
BATCH = 10
THREADS = 8
BODY = "x" * 1024
UNIT = 100_000


def section(scratch: Path, n: int, _seed: int) -> list[str]:
    runs = [_run(scratch / f"run-{number}") for number in range(n)]
    rows: list[tuple[str, ...]] = []
    for kind in ("none", "standard", "FIFO"):
        sent_s, to_s, from_s = (median(column) for column in zip(*[run[kind] for run in runs], strict=True))
        if kind == "none":
            empty = to_s, from_s
            rows.append((kind, "", f"{to_s:.1f}", f"{from_s:.1f}", "", "", ""))
            continue
        units = [(took_s - least_s) * UNIT / MESSAGES for took_s, least_s in zip((to_s, from_s), empty, strict=True)]
        ratio = f"{to_s / sent_s:.2f}, {from_s / sent_s:.2f}"
        rows.append((kind, f"{sent_s:.1f}", f"{to_s:.1f}", f"{from_s:.1f}", *[f"**{s:.0f}**" for s in units], ratio))
    heads = (
        f"{MESSAGES:,} messages of 1 KiB in {QUEUES} queues",
        "s to send them in batches",
        "s to a cluster",
        "s from it",
        f"s for {UNIT:,}: to",
        "from",
        "to, from : send",
    )
    return table(heads, rows)


def _run(scratch: Path) -> dict[str, tuple[float, float, float]]:
    """Seconds to send, to move to a cluster and to move back, by kind."""
    found = {}
    for kind in ("none", "standard", "FIFO"):
        directory = scratch / kind
        directory.mkdir(parents=True)
        with running(directory / "data") as up:
            began_s = time.perf_counter()
            if kind != "none":
                _fill(up.client("sqs"), fifo=kind == "FIFO")
            sent_s = time.perf_counter() - began_s
        with fresh_store() as store:
            store["CNS_MASTER_KEY"] = (directory / "data" / "master.key").read_text().strip()
            settings = {**store, "CNS_DATA": str(directory / "machine")}
            to_s = _move_s(settings, directory / "data", "cassandra")
            found[kind] = sent_s, to_s, _move_s(settings, "cassandra", directory / "back")
    return found


def _fill(sqs: Any, *, fifo: bool) -> None:
    attributes = {"FifoQueue": "true"} if fifo else {}
    names = [f"q{number}{'.fifo' if fifo else ''}" for number in range(QUEUES)]
    urls = [sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"] for name in names]

    def send(number: int) -> None:
        entries: list[dict[str, str]] = [{"Id": str(one), "MessageBody": BODY} for one in range(BATCH)]
        for one, entry in enumerate(entries if fifo else ()):
            entry.update(MessageGroupId=str(number % GROUPS), MessageDeduplicationId=f"{number}-{one}")
        sqs.send_message_batch(QueueUrl=urls[number % QUEUES], Entries=entries)

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(send, range(MESSAGES // BATCH)):
            pass


def _move_s(settings: Mapping[str, str], source: Path | str, target: Path | str) -> float:
    words: list[Path | str] = [BIN / "cns", "migrate", "--from", source, "--to", target, "--yes"]
    began_s = time.perf_counter()
    subprocess.run(words, env=plain_environment(**settings), check=True, capture_output=True)
    return time.perf_counter() - began_s
