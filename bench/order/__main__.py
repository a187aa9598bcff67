"""Senders and receivers as in the experiments of ADR 0016's paper: rates, response times, loss, duplicates and order.

python -m bench.order [--queues 20] [--senders 3] [--receivers 3] [--messages 100] [--fifo] [--repeat 3] …

All senders send; then all receivers receive, wait for `--receive-delay`, and delete. The queues have `Audit=on`:
counts, rates and order are what `cns pipeline audit` says of them; response times are measured here. Each body carries
a checksum that its receiver verifies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean
from time import perf_counter_ns
from zlib import crc32

import msgspec

from bench.load.queues import ALPHABET, Client
from bench.load.wire import Lane, connect
from bench.measure.processes import ROOT, Server
from bench.sections.runs import SERVICE, served
from cns_pipeline.audit.document import Audit

NS_PER_MS = 1_000_000
CHECKSUM_CHARS = 8
POLL_S = 1
EMPTY_POLLS = 3
"""A receiver ends after so many empty receives beyond the visibility timeout."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The paper's parameters: Q, Tsend, Trecv, m, L, δsend, δrecv, and the visibility timeout."""

    queues: int
    senders: int  # a queue
    receivers: int  # a queue
    messages: int  # a sender
    body_bytes: int
    send_delay_s: float
    receive_delay_s: float
    visibility_s: int
    fifo: bool


@dataclass(slots=True)
class Measured:
    """By the clients: response times in ns, and bodies that were not what was sent."""

    sends: list[int] = field(default_factory=list)
    receives: list[int] = field(default_factory=list)
    corrupt: int = 0


def main() -> int:
    load, repeat, seed = parsed()
    (ROOT / "build").mkdir(exist_ok=True)
    rows = []
    for number in range(repeat):
        with tempfile.TemporaryDirectory(prefix="order-", dir=ROOT / "build") as scratch:
            measured = driven(load, Path(scratch), Random(seed + number))
            rows.append(figures(audited(Path(scratch) / "store"), measured))
            print(json.dumps(rows[-1]), flush=True)
    print(msgspec.json.encode(load).decode())
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"{name:32} {mean(values):12,.4f}   ({min(values):,.4f} to {max(values):,.4f})")
    return 0


def parsed() -> tuple[Load, int, int]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("queues", 20), ("senders", 3), ("receivers", 3), ("messages", 100), ("body-bytes", 2048)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--send-delay", type=float, default=0, help="seconds")
    parser.add_argument("--receive-delay", type=float, default=0, help="seconds")
    parser.add_argument("--visibility", type=int, default=10, help="seconds")
    parser.add_argument("--fifo", action="store_true", help="one message group a queue")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    load = Load(
        queues=options.queues,
        senders=options.senders,
        receivers=options.receivers,
        messages=options.messages,
        body_bytes=options.body_bytes,
        send_delay_s=options.send_delay,
        receive_delay_s=options.receive_delay,
        visibility_s=options.visibility,
        fifo=options.fifo,
    )
    return load, options.repeat, options.seed


def driven(load: Load, data: Path, random: Random) -> Measured:
    """Drive a service of its own, which has stopped afterwards: its last events are sealed."""
    with served("order", SERVICE, data) as server:
        return asyncio.run(_drive(load, server, random))


async def _drive(load: Load, server: Server, random: Random) -> Measured:
    measured = Measured()
    queues = [await _queue(load, server, number) for number in range(load.queues)]
    await asyncio.gather(
        *[
            _send(load, queue, lane, Random(random.random()), measured)
            for queue in queues
            for lane in queue.lanes[: load.senders]
        ]
    )
    await asyncio.gather(
        *[_receive(load, queue, lane, measured) for queue in queues for lane in queue.lanes[: load.receivers]]
    )
    for queue in queues:
        queue.close()
    return measured


async def _queue(load: Load, server: Server, number: int) -> Client:
    """A queue and a connection for each of its senders or receivers."""
    client = Client(server, await connect(server.port, max(load.senders, load.receivers)), number)
    fifo = {"FifoQueue": "true"} if load.fifo else {}
    name = f"order-{number}{'.fifo' if load.fifo else ''}"
    await client.use_queue(name, Audit="on", VisibilityTimeout=str(load.visibility_s), **fifo)
    return client


async def _send(load: Load, queue: Client, lane: Lane, random: Random, measured: Measured) -> None:
    for _ in range(load.messages):
        text = bytes(random.choices(ALPHABET, k=load.body_bytes - CHECKSUM_CHARS)).decode()
        fifo = {"MessageGroupId": "g", "MessageDeduplicationId": text[:40]} if load.fifo else {}
        request = queue.call("SendMessage", MessageBody=f"{crc32(text.encode()):08x}{text}", **fifo)
        await _timed(lane, request, measured.sends)
        await asyncio.sleep(load.send_delay_s)


async def _receive(load: Load, queue: Client, lane: Lane, measured: Measured) -> None:
    empty = 0
    while empty < EMPTY_POLLS + load.visibility_s // POLL_S:
        request = queue.call("ReceiveMessage", MaxNumberOfMessages=1, WaitTimeSeconds=POLL_S)
        times: list[int] = []
        messages = msgspec.json.decode(await _timed(lane, request, times)).get("Messages", [])
        empty = 0 if messages else empty + 1
        for message in messages:
            measured.receives += times
            checksum, text = message["Body"][:CHECKSUM_CHARS], message["Body"][CHECKSUM_CHARS:]
            measured.corrupt += checksum != f"{crc32(text.encode()):08x}"
            await asyncio.sleep(load.receive_delay_s)
            await lane.ask(queue.call("DeleteMessage", ReceiptHandle=message["ReceiptHandle"]))


async def _timed(lane: Lane, request: bytes, times: list[int]) -> bytes:
    began_ns = perf_counter_ns()
    answer = await lane.ask(request)
    times.append(perf_counter_ns() - began_ns)
    return answer


def audited(data: Path) -> Audit:
    """Ingest and audit. All queues were emptied."""
    pipeline = [sys.executable, "-m", "cns_cli.main", "pipeline"]
    subprocess.run([*pipeline, "ingest", "--data", data], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.run([*pipeline, "audit", "--data", data, "--at-rest"], check=False, cwd=ROOT, stdout=subprocess.DEVNULL)
    return msgspec.json.decode((data / "pipeline" / "audit" / "audit.json").read_bytes(), type=Audit)


def figures(audit: Audit, measured: Measured) -> dict[str, float]:
    """Figures of all queues together."""
    counts, orders = [queue.counts for queue in audit.queues], [queue.order for queue in audit.queues]
    sent, compared = sum([count.sent for count in counts]), sum([order.compared for order in orders])
    send_ms = max([count.last_sent_ms or 0 for count in counts]) - min([count.first_sent_ms or 0 for count in counts])
    first_ms = min([count.first_received_ms or 0 for count in counts])
    receive_ms = max([count.last_deleted_ms or 0 for count in counts]) - first_ms
    return {
        "messages": sent,
        "send rate, 1/s": sent * 1000 / max(send_ms, 1),
        "receive+delete rate, 1/s": sum([count.deleted for count in counts]) * 1000 / max(receive_ms, 1),
        "send response, mean ms": mean(measured.sends) / NS_PER_MS,
        "receive response, mean ms": mean(measured.receives) / NS_PER_MS,
        "duplication rate λ": sum([count.duplicates for count in counts]) / sent,
        "loss rate ε": sum([count.lost for count in counts]) / sent,
        "unknown": sum([count.unknown for count in counts]),
        "corrupt by the receivers": measured.corrupt,
        "out-of-order rate": sum([order.out_of_order for order in orders]) / compared,
        "average displacement": sum([order.displacement_sum for order in orders]) / compared,
    }


if __name__ == "__main__":
    sys.exit(main())
