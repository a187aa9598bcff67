"""Deliveries a second of 1, 2 and 4 worker processes on one cluster, from a backlog, and how busy the CPUs were.

    python -m lab.bench.scaling [--workers 1,2,4] [--messages 6000] [--subscriptions 150] [--cpu 0.06]
                            [--delay-ms 0] [--sends 100]

For each number of workers a new cluster with one API process gets the backlog while no worker runs; then `cns worker`
processes start, and the rate counts from when all of them report until 95 % are delivered. On a machine with few cores
workers, Cassandra and Redis compete for them: so each worker may use only `--cpu` of a core (Linux, root), and the rate
is bounded by the workers as long as the CPUs have time. `--cpu 0` sets no bound. More than 100 `--subscriptions` of the
topic let the publishes pass the producers. An endpoint answers after `--delay-ms`, and a worker has at most `--sends`
sends to it at once; what is more waits in one lane, which one worker holds, so a single slow endpoint gets no more from
several workers. It takes Cassandra and Redis as the tests do.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.harness.cluster import cluster
from lab.harness.clustered import Clustered
from lab.harness.endpoints import Endpoint, running_receiver
from lab.harness.processes import BIN, Process, plain_environment, stop_all
from lab.harness.waiting import wait_until
from lab.measure.cpu_share import busy_and_all, cpu_share

BATCH = 10
DONE_SHARE = 0.95
START_S = 120.0
RUN_S_MAX = 300.0
POLL_S = 0.25
DELIVERIES = "cns_deliveries_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    messages: int  # deliveries for each worker
    cpu: float  # of a core, for each worker; 0: all that there is
    delay_ms: int
    sends: int
    subscriptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    workers: int
    per_second: float
    busy: float
    """Share of all CPUs that was used, by whatever process."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--messages", type=int, default=6_000, help="deliveries for each worker")
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--sends", type=int, default=100)
    parser.add_argument("--subscriptions", type=int, default=150)
    parser.add_argument("--cpu", type=float, default=0.06, help="the share of a core that a worker may use; 0: all")
    given = parser.parse_args()
    load = Load(
        messages=given.messages,
        cpu=given.cpu,
        delay_ms=given.delay_ms,
        sends=given.sends,
        subscriptions=given.subscriptions,
    )
    print("| worker processes | deliveries a second | × half as many | CPUs busy |\n|---|---|---|---|")
    rates: dict[int, Rate] = {}
    for workers in [int(number) for number in given.workers.split(",")]:
        rate = rates[workers] = measure(workers, load)
        half = rates.get(workers // 2)
        times = f"{rate.per_second / half.per_second:.2f}" if half and workers > 1 else ""
        print(f"| {workers} | {rate.per_second:.1f} | {times} | {rate.busy:.0%} |", flush=True)


def measure(workers: int, load: Load) -> Rate:
    settings = {"CNS_ENDPOINT_SENDS": str(load.sends), "CNS_ENDPOINT_SENDS_FAST": str(load.sends)}
    with (
        tempfile.TemporaryDirectory() as directory,
        running_receiver() as receiver,
        cluster(Path(directory), apis=1, workers=0, **settings) as started,
    ):
        service = Clustered(url=started.url, environment=started.account(), cluster=started)
        topic = _topic(service, receiver, load, Path(directory))
        before = service.metric(DELIVERIES)
        goal = workers * load.messages
        _publish(service, topic, -(-goal // load.subscriptions))
        with _workers(service, workers, Path(directory), load.cpu):
            wait_until(lambda: len(service.health()["workers"]) == workers, START_S, started.said)
            first, began_s, cpu = service.metric(DELIVERIES), time.monotonic(), busy_and_all()
            last = first
            while last - before < DONE_SHARE * goal and time.monotonic() < began_s + RUN_S_MAX:
                time.sleep(POLL_S)  # the span between two readings of the count
                last = service.metric(DELIVERIES)
            took_s, after = time.monotonic() - began_s, busy_and_all()
    busy = (after[0] - cpu[0]) / (after[1] - cpu[1])
    return Rate(workers=workers, per_second=(last - first) / took_s, busy=busy)


def _topic(service: Clustered, receiver: str, load: Load, directory: Path) -> str:
    """A topic with confirmed subscriptions; a worker delivers the confirmations and stops."""
    sns: Any = service.client("sns", tries=5)
    arn = str(sns.create_topic(Name=uuid.uuid4().hex)["TopicArn"])
    endpoints = [Endpoint(receiver) for _ in range(load.subscriptions)]
    with _workers(service, 1, directory):
        for endpoint in endpoints:
            sns.subscribe(TopicArn=arn, Protocol="http", Endpoint=endpoint.url)
        confirmed = {"Attributes": {"SubscriptionsConfirmed": str(load.subscriptions)}}

        def are_confirmed() -> bool:
            found = sns.get_topic_attributes(TopicArn=arn)["Attributes"]["SubscriptionsConfirmed"]
            return bool(found == confirmed["Attributes"]["SubscriptionsConfirmed"])

        wait_until(are_confirmed, START_S, service.said)
    for endpoint in endpoints:
        endpoint.behave(delay_ms=load.delay_ms)
    wait_until(lambda: not service.health()["workers"], START_S)
    return arn


def _publish(service: Clustered, topic: str, n: int) -> None:
    sns: Any = service.client("sns", tries=5)
    for first in range(0, n, BATCH):
        entries = [{"Id": str(number), "Message": str(number)} for number in range(first, min(first + BATCH, n))]
        answer = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
        assert len(answer["Successful"]) == len(entries), answer


@contextmanager
def _workers(service: Clustered, n: int, directory: Path, cpu: float = 0) -> Iterator[None]:
    started: list[Process] = []
    with ExitStack() as groups:
        try:
            for _ in range(n):
                name = f"cns-worker-{uuid.uuid4().hex[:8]}"
                environment = {**service.cluster.environment, "CNS_DATA": str(directory / name)}
                process = Process([BIN / "cns", "worker"], directory / f"{name}.log", plain_environment(**environment))
                started.append(process)
                process.start()
                if cpu:
                    groups.enter_context(cpu_share(name, cpu)).write_text(f"{process.pid}")
            yield
        finally:
            stop_all(started)


if __name__ == "__main__":
    main()
