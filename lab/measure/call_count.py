"""Counts the calls that one publish costs: Publish → signed HTTP delivery → settled, in the API process and the worker.

    python -m lab.measure.call_count [--rounds 30] [--functions worker]

A profile hook in both processes counts calls of the product's own functions; a coroutine that goes on counts as a call.
Each round is one publish to a topic with one HTTP subscription. The figure of a function is its lowest count of all
rounds, so calls of loops that run now and then drop out. `--functions` lists the functions of one process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import reduce
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Self

from lab.harness import commands
from lab.harness.ports import free_port
from lab.harness.processes import ROOT, credentials_in, is_open
from lab.harness.server import Server
from lab.harness.waiting import PATIENCE_S, wait_until
from lab.load.endpoints import Sink
from lab.load.topics import open_topic

PRODUCT = tuple(
    f"{ROOT}/{package}/" for package in ("cns_common", "cqs", "cns", "cns_backend", "workers", "cns_server", "cns_cli")
)
ROLES = ("api-store", "worker")
SETTLED_S = 0.3
"""Wait from the endpoint's answer until the settlement is done."""
WARM_UP_ROUNDS = 5
MESSAGE_BYTES = 100

Counts = dict[str, int]
"""By `file:line function`."""


def count_calls(role: str, settings: Mapping[str, str], pipe: Connection) -> None:
    """Run one process of the service. For each message in the pipe it sends the counts since the last one."""
    os.environ.update(settings)
    from cns_cli.service.processes import main

    counts: Counter[CodeType] = Counter()

    def hook(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts[frame.f_code] += 1

    def answer() -> None:
        while pipe.recv():
            taken = counts.copy()
            counts.clear()
            ours = [(code, n) for code, n in taken.items() if code.co_filename.startswith(PRODUCT)]
            pipe.send({_name(code): n for code, n in ours})

    threading.Thread(target=answer, daemon=True).start()
    threading.setprofile(hook)
    sys.setprofile(hook)
    main(role)


def _name(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_firstlineno} {code.co_qualname}"


class Process:
    def __init__(self, role: str, settings: Mapping[str, str]) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=count_calls, args=(role, settings, theirs))
        self._process.start()

    def counts(self) -> Counts:
        """Counts since the last call."""
        self._pipe.send(True)
        counts: Counts = self._pipe.recv()
        return counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()


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
        account = commands.run("account", "create", environment={**os.environ, **settings}).stdout
        processes = {role: stack.enter_context(Process(role, settings)) for role in ROLES}
        wait_until(lambda: is_open(port))
        server = Server(name="counted", port=port, pid=0, credentials=credentials_in(account), data=directory)
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
    options = parser.parse_args()
    counts = asyncio.run(measure(options.rounds))
    for role in ROLES:
        files = {name.partition(":")[0] for name in counts[role]}
        print(f"{role}: {len(files)} files, {len(counts[role])} functions, {sum(counts[role].values())} calls")
    print(f"both: {sum(sum(each.values()) for each in counts.values())} calls")
    for name, n in sorted(counts.get(options.functions, {}).items()):
        print(f"{n:5} {name}")


if __name__ == "__main__":
    main()
