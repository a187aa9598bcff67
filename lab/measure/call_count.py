"""Counts the calls that one publish costs: Publish → signed HTTP delivery → settled, in the API process and the worker.

    python -m lab.measure.call_count [--rounds 30] [--functions worker]

A profile hook in both processes counts calls of the product's own functions; a coroutine that goes on counts as a call.
Each round is one publish to a topic with one HTTP subscription. The figure of a function is its lowest count of all
rounds, so calls of loops that run now and then drop out. `--functions` lists the functions of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import boto3

from lab.harness.ports import free_port
from lab.harness.waiting import wait_until

ROOT = Path(__file__).parents[2]
PRODUCT = tuple(
    f"{ROOT}/{package}/" for package in ("cns_common", "cqs", "cns", "cns_backend", "workers", "cns_server", "cns_cli")
)
ROLES = ("api-store", "worker")
COUNTS = "counts "
SETTLED_S = 0.3
"""Wait from the endpoint's answer until the settlement is done."""
WARM_UP_ROUNDS = 5
ANSWER_TIMEOUT_S = 20.0

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

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


@contextmanager
def endpoint() -> Iterator[tuple[str, SimpleQueue[dict[str, Any]]]]:
    """Run an HTTP endpoint that answers 204. Yields its URL and the queue of posted bodies."""
    bodies: SimpleQueue[dict[str, Any]] = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()
            bodies.put(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", bodies
    finally:
        server.shutdown()


def measure(rounds: int) -> dict[str, Counts]:
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
        processes: dict[str, Process] = {}
        processes["api-store"] = Process("api-store", settings)
        stack.callback(processes["api-store"].stop)
        key = processes["api-store"].read_until("export AWS_ACCESS_KEY_ID=").strip().strip("'\"")
        secret = processes["api-store"].read_until("export AWS_SECRET_ACCESS_KEY=").strip().strip("'\"")
        wait_until(lambda: _listens(port), ANSWER_TIMEOUT_S)
        processes["worker"] = Process("worker", settings)
        stack.callback(processes["worker"].stop)
        url, bodies = stack.enter_context(endpoint())
        sns = boto3.client(
            "sns",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=secret,
        )
        topic = sns.create_topic(Name="counted")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=url)
        sns.confirm_subscription(TopicArn=topic, Token=bodies.get(timeout=ANSWER_TIMEOUT_S)["Token"])
        found: dict[str, list[Counts]] = {role: [] for role in ROLES}
        for _ in range(WARM_UP_ROUNDS + rounds):
            for process in processes.values():
                process.counts()
            sns.publish(TopicArn=topic, Message="x" * 100)
            bodies.get(timeout=ANSWER_TIMEOUT_S)
            time.sleep(SETTLED_S)  # the settlement raises no event that this process could wait for
            for role, process in processes.items():
                found[role].append(process.counts())
    return {role: reduce(_lowest, counts[WARM_UP_ROUNDS:]) for role, counts in found.items()}


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


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
    counts = measure(options.rounds)
    for role in ROLES:
        files = {name.partition(":")[0] for name in counts[role]}
        print(f"{role}: {len(files)} files, {len(counts[role])} functions, {sum(counts[role].values())} calls")
    print(f"both: {sum(sum(each.values()) for each in counts.values())} calls")
    for name, n in sorted(counts.get(options.functions, {}).items()):
        print(f"{n:5} {name}")


if __name__ == "__main__":
    main()
