"""Runs one workload against a running server, and prints its figures as one line of JSON.

    python -m lab.load.generator send --port 6059 --pid 4711 --connections 64 --count 30000

Access keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. `receive-delete` and `drain` need messages in the
queue.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop

from lab.harness.server import Server
from lab.harness.signing import Credentials
from lab.load import polls, queues
from lab.measure.figures import Figures

Workload = Callable[[queues.Client, int], Awaitable[Figures]]

WORKLOADS: dict[str, Workload] = {
    "send": queues.send,
    "receive-delete": queues.receive_delete,
    "send-batches": queues.send_batches,
    "drain": queues.drain,
    "wake": polls.wake,
}
IDLE = "idle"
IDLE_SECONDS = 20.0


async def measure(server: Server, options: argparse.Namespace) -> msgspec.Struct:
    if options.workload == IDLE:
        return await polls.idle(server, options.connections, IDLE_SECONDS)
    client = await queues.open_client(server, options.connections, options.seed, options.queue)
    return await WORKLOADS[options.workload](client, options.count)


def credentials() -> Credentials:
    """From the environment; a server without authentication accepts any."""
    return Credentials(
        key_id=os.environ.get("AWS_ACCESS_KEY_ID", "AKIAFLOOR"),
        secret=os.environ.get("AWS_SECRET_ACCESS_KEY", "floor"),
        region=os.environ.get("AWS_DEFAULT_REGION", "us-east-1"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=(*WORKLOADS, IDLE))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="the server's; processes below it are counted as well")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--count", type=int, default=10_000, help="messages, pairs or wake-ups")
    parser.add_argument("--queue", default="load")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    server = Server(name="server", port=options.port, pid=options.pid, credentials=credentials(), data=Path())
    print(msgspec.json.encode(uvloop.run(measure(server, options))).decode())


if __name__ == "__main__":
    main()
