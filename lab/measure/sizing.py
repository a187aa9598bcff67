"""Measures memory and disk of one machine's service: empty, and for each message, queue and subscription.

`python -m lab.measure.sizing` prints the table of docs/guides/sizing.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.harness.running import Up, running

THREADS = 8
BATCH = 10
KIB = 1024
MIB = KIB * KIB
BODY = "x" * KIB


def proportional_bytes(up: Up) -> int:
    """Memory of the service's processes; pages that several share count once."""
    pids = [up.process.pid, *up.pids().values()]
    return sum(_pss(Path(f"/proc/{pid}/smaps_rollup")) for pid in pids)


def _pss(rollup: Path) -> int:
    line = next(line for line in rollup.read_text().splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) * KIB


def _each(work: Callable[[int], object], items: range) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(work, items):
            pass


def messages(up: Up, count: int) -> None:
    sqs = up.client("sqs")
    queue = sqs.create_queue(QueueName="messages")["QueueUrl"]

    entries = [{"Id": str(n), "MessageBody": BODY} for n in range(BATCH)]
    _each(lambda _: sqs.send_message_batch(QueueUrl=queue, Entries=entries), range(count // BATCH))


def queues(up: Up, count: int) -> None:
    sqs = up.client("sqs")
    _each(lambda n: sqs.create_queue(QueueName=f"queue-{n}"), range(count))


def subscriptions(up: Up, count: int) -> None:
    sqs, sns = up.client("sqs"), up.client("sns")
    topic = sns.create_topic(Name="topic")["TopicArn"]
    account = topic.split(":")[4]
    sqs.create_queue(QueueName="target")
    arn = f"arn:aws:sqs:us-east-1:{account}:target"
    _each(lambda n: sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"{arn}-{n}"), range(count))


def measure(fill: Callable[[Up, int], None] | None, count: int) -> tuple[int, int]:
    """Bytes of memory while it runs, and of its store after it has stopped."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        with running(data) as up:
            if fill is not None:
                fill(up, count)
            memory = proportional_bytes(up)
        return memory, (data / "store.db").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--subscriptions", type=int, default=1_000)
    counts = parser.parse_args()
    memory, disk = measure(None, 0)
    print("| | memory | disk |\n|---|---|---|")
    print(f"| the service, empty | {memory / MIB:.0f} MiB | {disk / KIB:.0f} KiB |", flush=True)
    for name, fill, count in (
        ("message of 1 KiB that waits", messages, counts.messages),
        ("queue", queues, counts.queues),
        ("subscription", subscriptions, counts.subscriptions),
    ):
        more_memory, more_disk = (
            now - before for now, before in zip(measure(fill, count), (memory, disk), strict=True)
        )
        print(
            f"| each {name} ({count:,}) | {more_memory / count:,.0f} bytes | {more_disk / count:,.0f} bytes |",
            flush=True,
        )


if __name__ == "__main__":
    main()
