"""Measures the CPU time of a publish that is delivered to one webhook, with and without traces.

    python -m lab.bench.trace_cost [--publishes 2000] [--rounds 3]

Services without traces, sampling 1 % and sampling all of them take the same publishes in turn, round after round. CPU
time is compared, not time: it is the same on a busy machine. The collector and the endpoint are in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import boto3
from botocore.config import Config

from cns_receiver.receiver import Options, Receiver
from lab.harness.endpoints import Endpoint
from lab.harness.running import Up, running
from lab.harness.usage import cpu_s, tree

WARM_UP = 200
FORMS: Mapping[str, Mapping[str, str]] = {
    "off": {},
    "1 %": {"CNS_OTEL_SAMPLE_RATIO": "0.01"},
    "all": {"CNS_OTEL_SAMPLE_RATIO": "1"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publishes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    costs: dict[str, list[float]] = {name: [] for name in FORMS}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        collector, receiver = stack.enter_context(_collector()), stack.enter_context(_receiver())
        loads: dict[str, Load] = {}
        for name, settings in FORMS.items():
            given = {**settings, "CNS_OTEL_ENDPOINT": collector} if settings else {}
            data = directory / f"data-{len(loads)}"
            loads[name] = Load(stack.enter_context(running(data, environment=given)), Endpoint(receiver))
            loads[name].publish(WARM_UP)
        for _ in range(options.rounds):
            for name, load in loads.items():
                costs[name].append(load.publish(options.publishes))
    base = statistics.median(costs["off"])
    for name, found in costs.items():
        cost = statistics.median(found)
        print(f"{name}: {cost:.3f} ms ({cost / base - 1:+.1%}); rounds: {', '.join(f'{each:.3f}' for each in found)}")


class Load:
    """A topic of one service with one webhook."""

    def __init__(self, service: Up, endpoint: Endpoint) -> None:
        self._service = service
        self._endpoint = endpoint
        self._sns = boto3.client(
            "sns",
            endpoint_url=service.url,
            region_name="us-east-1",
            aws_access_key_id=service.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=service.environment["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"total_max_attempts": 1}),
        )
        self._topic = self._sns.create_topic(Name="t")["TopicArn"]
        self._sns.subscribe(TopicArn=self._topic, Protocol="http", Endpoint=endpoint.url)
        endpoint.wait(confirmed=1)
        self._delivered = 0

    def publish(self, count: int) -> float:
        """CPU of the service's processes in ms per publish, until all are delivered."""
        before = self._cpu_s()
        for _ in range(count):
            self._sns.publish(TopicArn=self._topic, Message="m" * 200)
        self._delivered += count
        self._endpoint.wait(accepted=self._delivered)
        return (self._cpu_s() - before) / count * 1000

    def _cpu_s(self) -> float:
        return sum(map(cpu_s, tree(self._service.process.pid)))


@contextmanager
def _collector() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _receiver() -> Iterator[str]:
    """`cns receiver` in a thread of this process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[Receiver, str]:
        receiver = Receiver(Options(verify="off"))
        return receiver, await receiver.start("127.0.0.1", 0)

    receiver, url = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield url
    finally:
        asyncio.run_coroutine_threadsafe(receiver.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


if __name__ == "__main__":
    main()
