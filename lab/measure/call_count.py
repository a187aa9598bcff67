"""Counts the calls that one publish costs: Publish → signed HTTP delivery → settled, in the API process and the worker.

    python -m lab.measure.call_count [--rounds 30] [--functions worker]

A profile hook in both processes counts calls of the product's own functions; a coroutine that goes on counts as a call.
Each round is one publish to a topic with one HTTP subscription. The figure of a function is its lowest count of all
rounds, so calls of loops that run now and then drop out. `--functions` lists the functions of one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Self

from lab.harness.ports import free_port
from lab.harness.processes import ROOT, is_open
from lab.harness.server import Server
from lab.harness.signing import Credentials
from lab.harness.waiting import PATIENCE_S, wait_until
from lab.load.endpoints import Sink
from lab.load.topics import open_topic

PRODUCT = tuple(
    f"{ROOT}/{package}/" for package in ("cns_common", "cqs", "cns", "cns_backend", "workers", "cns_server", "cns_cli")
)
ROLES = ("api-store", "worker")
COUNTS = "counts "
SETTLED_S = 0.3
"""Wait from the endpoint's answer until the settlement is done."""
WARM_UP_ROUNDS = 5
MESSAGE_BYTES = 100

Counts = dict[str, int]
"""By `file:line function`."""


def count_calls(role: str) -> None:
    """Run one process of the service. For each line on stdin it prints the counts since the last one."""
    from cns_cli.service.processes import main

    counts: Counter[CodeType] = Counter()

    def hook(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts[frame.f_code] += 1

    def answer() -> None:
        for _ in sys.stdin:
            taken = counts.copy()
            counts.clear()
            named = {
                f"{code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_firstlineno} {code.co_qualname}": n
                for code, n in taken.items()
                if code.co_filename.startswith(PRODUCT)
            }
            print(COUNTS + json.dumps(named), flush=True)

    threading.Thread(target=answer, daemon=True).start()
    threading.setprofile(hook)
    sys.setprofile(hook)
    main(role)


class Process:
    def __init__(self, role: str, settings: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--role", role],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read_until(self, start: str) -> str:
        """The next line with this beginning."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(start):
                return line.removeprefix(start)
        raise RuntimeError("the process ended")

    def counts(self) -> Counts:
        """Counts since the last call."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        counts: Counts = json.loads(self.read_until(COUNTS))
        return counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


async def measure(rounds: int) -> dict[str, Counts]:
    """Counts by role."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        port = free_port()
        settings = {
            "CNS_DATA": str(directory / "data"),
            "CNS_PORT": str(port),
            "CNS_AUTH": "on",
            "CNS_LOG_LEVEL": "warning",
            "CNS_RESERVE_BYTES": "0",
        }
        processes = {role: stack.enter_context(Process(role, settings)) for role in ROLES}
        api = processes["api-store"]
        credentials = Credentials(
            key_id=api.read_until("export AWS_ACCESS_KEY_ID=").strip(),
            secret=api.read_until("export AWS_SECRET_ACCESS_KEY=").strip(),
        )
        wait_until(lambda: is_open(port))
        server = Server(name="counted", port=port, pid=0, credentials=credentials, data=directory)
        topic, sink = await open_topic(server, 1, 1, "counted"), Sink()
        await topic.subscribe_sink(sink, raw=False)
        found: dict[str, list[Counts]] = {role: [] for role in ROLES}
        for _ in range(WARM_UP_ROUNDS + rounds):
            for process in processes.values():
                process.counts()
            sink.reset()
            await topic.client.lanes[0].ask(topic.publish(f"began={perf_counter_ns()} ".ljust(MESSAGE_BYTES, "x")))
            await sink.await_count(1, PATIENCE_S)
            await asyncio.sleep(SETTLED_S)  # the settlement raises no event that this process could wait for
            for role, process in processes.items():
                found[role].append(process.counts())
        topic.client.close()
        sink.close()
    return {role: reduce(_lowest, counts[WARM_UP_ROUNDS:]) for role, counts in found.items()}


def _lowest(one: Counts, other: Counts) -> Counts:
    return {name: min(n, other[name]) for name, n in one.items() if name in other}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--functions", choices=ROLES)
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        count_calls(options.role)
        return
    counts = asyncio.run(measure(options.rounds))
    for role in ROLES:
        files = {name.partition(":")[0] for name in counts[role]}
        print(f"{role}: {len(files)} files, {len(counts[role])} functions, {sum(counts[role].values())} calls")
    print(f"both: {sum(sum(each.values()) for each in counts.values())} calls")
    for name, n in sorted(counts.get(options.functions, {}).items()):
        print(f"{n:5} {name}")


if __name__ == "__main__":
    main()
