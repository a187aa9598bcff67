"""Failing endpoints beside healthy ones: one run on one service, and the outcome of each message."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import perf_counter

import msgspec
import uvloop

from lab.bench.sections.runs import QUIET_S_MAX, SERVICE, served
from lab.harness.server import Server
from lab.harness.usage import await_quiet
from lab.load.endpoint_process import EndpointProcess, SubscriptionRequest, endpoint_process, subscribe
from lab.load.endpoints import NUMBER, Arrival, Kind
from lab.load.pacing import Schedule, planned_ns
from lab.load.queues import BATCH, Client, delete_batch_request, handles_in
from lab.load.topics import Topic
from lab.load.wire import LoadError, Script, connect, run
from lab.measure.cpu import CpuClock, CpuShares
from lab.measure.figures import NS_PER_MS, percentile
from lab.measure.memory import MemoryUse, sampled_memory
from lab.measure.metrics import metric_total
from lab.measure.outcomes import AcceptedPublish, Outcomes, dropped_in, outcomes_of

CONNECTIONS = 64
MESSAGE_BYTES = 1024
DEAD_LETTERS = "dead-letters"
EMPTY_MAX = 5
POLL_INTERVAL_S = 0.25

RUNS: dict[str, tuple[Kind, ...]] = {
    "all healthy": (),
    "half failing: refused, timing out, slow, 500": (Kind.REFUSED, Kind.HANGING, Kind.SLOW, Kind.FAILING),
    "half failing: all timing out": (Kind.HANGING,),
}

_MESSAGE_ID = re.compile(rb"<MessageId>([^<]+)</MessageId>")


class Size(msgspec.Struct, frozen=True, kw_only=True):
    rate: float = 500.0  # publishes per second over all topics
    topics: int = 1_000
    seconds: float = 300.0
    signed: bool = False
    retry_s: int = 0  # between attempts; 0: the service's default
    drain_s_max: float = 600.0


class IsolationFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Times are those of the healthy half, from the planned start of a publish to its arrival."""

    run: str
    publishes: int
    late_p99_ms: float  # delay of the generator's own timers, included in the times
    p50_ms: float
    p99_ms: float
    max_ms: float
    backlog: int  # messages without an outcome when the endpoints recover
    drained_s: float | None  # None: not drained within `drain_s_max`
    memory: dict[str, MemoryUse]
    cpu: CpuShares
    outcomes: Outcomes | None = None


def counts_of(kinds: Sequence[Kind], topics: int) -> dict[Kind, int]:
    """Endpoints by kind: the first half healthy, the rest in equal parts."""
    healthy = topics // 2 if kinds else topics
    dead = topics - healthy
    parts = {kind: dead // len(kinds) + (n < dead % len(kinds)) for n, kind in enumerate(kinds)}
    return {Kind.HEALTHY: healthy} | parts


def topics_in_turn(publishes: int, topics: int, seed: int) -> list[int]:
    """The topic of each publish: all equally often, in a random order."""
    order = Random(seed).sample(range(topics), topics)
    return [order[number % topics] for number in range(publishes)]


class _Run:
    """One run on one server: set up, publish, recover, drain."""

    def __init__(self, server: Server, client: Client, endpoints: EndpointProcess, size: Size, seed: int) -> None:
        self._server = server
        self._client = client
        self._endpoints = endpoints
        self._size = size
        self._caller = Topic(client)
        self._topics: list[str] = []
        self._schedule = Schedule(planned_ns(size.rate, size.seconds))
        self._order = topics_in_turn(len(self._schedule), size.topics, seed)
        self._padding = client.body()
        self.accepted: dict[int, AcceptedPublish] = {}

    async def set_up(self) -> None:
        """Make topics and subscriptions. Every second subscription has a dead-letter queue, the others have none."""
        await self._client.use_queue(DEAD_LETTERS)
        dead_letter_queue = await self._open_to_topics()
        for number in range(self._size.topics):
            await self._caller.open(f"topic-{number}")
            self._topics.append(self._caller.arn)
        requests = [
            SubscriptionRequest(topic, n, self._attributes(dead_letter_queue if n % 2 else ""))
            for n, topic in enumerate(self._topics)
        ]
        await subscribe(self._caller, self._endpoints, requests)

    async def publish(self) -> None:
        await self._schedule.run(self._client.lanes, self._request, self._answered)

    async def backlog(self) -> int:
        """Messages without an outcome. A message that was delivered and also dropped counts as two outcomes."""
        outcomes = [
            await metric_total(self._server, f"{end}_total")
            for end in ("notifications_dead_lettered", "notifications_dropped")
        ]
        return len(self.accepted) - (await self._endpoints.status()).accepted - sum(outcomes)

    async def drain(self) -> float | None:
        """Seconds until there is no backlog; None after `drain_s_max`."""
        began_s = perf_counter()
        while perf_counter() - began_s < self._size.drain_s_max:
            if await self.backlog() <= 0:
                return round(perf_counter() - began_s, 1)
            await asyncio.sleep(POLL_INTERVAL_S)
        return None

    async def dead_letters(self) -> list[int]:
        """The numbers of all dead letters. A receive may be empty although messages are left."""
        found: list[int] = []

        def script() -> Script:
            empty = 0
            while empty < EMPTY_MAX:
                answer = yield [], self._client.call("ReceiveMessage", MaxNumberOfMessages=BATCH)
                found.extend(int(number) for number in NUMBER.findall(answer))
                empty = 0 if (handles := handles_in(answer)) else empty + 1
                if handles:
                    yield [], delete_batch_request(self._client, handles)

        await self._client.connect_anew()
        await run(self._client.lanes, [script() for _ in self._client.lanes])
        return found

    def times_ms(self, arrivals: Sequence[Arrival]) -> list[float]:
        """Sorted delivery times of the healthy half's messages, to the first arrival of each."""
        first_ns: dict[int, int] = {}
        for arrival in arrivals:
            if arrival.endpoint < self._size.topics // 2:
                first_ns.setdefault(arrival.number, arrival.at_ns)
        return sorted((at_ns - self._schedule.due_ns(number)) / NS_PER_MS for number, at_ns in first_ns.items())

    @property
    def late_p99_ms(self) -> float:
        return round(percentile(sorted(self._schedule.late_ns), 99) / NS_PER_MS, 2)

    def _request(self, number: int) -> bytes:
        message = f"number={number} {self._padding}"[:MESSAGE_BYTES]
        return self._caller.call("Publish", TopicArn=self._topics[self._order[number]], Message=message)

    def _answered(self, number: int, answer: bytes) -> None:
        found = _MESSAGE_ID.search(answer)
        if found is None:
            raise LoadError(f"no message id in {answer!r:.300}")
        self.accepted[number] = AcceptedPublish(found[1].decode(), self._order[number])

    def _attributes(self, dead_letter_queue: str) -> dict[str, str]:
        retry_s = self._size.retry_s
        policy = {"healthyRetryPolicy": {"minDelayTarget": retry_s, "maxDelayTarget": retry_s, "numRetries": 3}}
        return {
            **({} if self._size.signed else {"RawMessageDelivery": "true"}),
            **({"DeliveryPolicy": msgspec.json.encode(policy).decode()} if retry_s else {}),
            **(
                {"RedrivePolicy": msgspec.json.encode({"deadLetterTargetArn": dead_letter_queue}).decode()}
                if dead_letter_queue
                else {}
            ),
        }

    async def _open_to_topics(self) -> str:
        """Let every topic send to the dead-letter queue. Returns its ARN."""
        answer = await self._client.ask("GetQueueAttributes", QueueUrl=self._client.url, AttributeNames=["QueueArn"])
        arn = msgspec.convert(answer["Attributes"], dict[str, str])["QueueArn"]
        allowed = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
        policy = msgspec.json.encode({"Statement": [{**allowed, "Resource": arn}]}).decode()
        await self._client.ask("SetQueueAttributes", QueueUrl=self._client.url, Attributes={"Policy": policy})
        return arn


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result before the server stops, which writes its last drop events then."""

    figures: IsolationFigures
    accepted: dict[int, AcceptedPublish]
    arrivals: list[Arrival]
    dead_letters: list[int]


async def measure(server: Server, name: str, size: Size, seed: int, out: Path) -> RunResult:
    async with endpoint_process(counts_of(RUNS[name], size.topics), out) as endpoints:
        client = Client(server, await connect(server.port, CONNECTIONS), seed)
        one = _Run(server, client, endpoints, size, seed)
        await one.set_up()
        await client.connect_anew()
        await endpoints.fail()
        async with sampled_memory(server) as samples:
            cpu = CpuClock(server, endpoints.cpu_s)
            await one.publish()
            used = cpu.read()
            backlog = await one.backlog()
            await endpoints.recover()
            drained_s = await one.drain()
        arrivals, dead_letters = await endpoints.arrivals(), await one.dead_letters()
        client.close()
    times_ms = one.times_ms(arrivals) or [0.0]
    figures = IsolationFigures(
        run=name,
        publishes=len(one.accepted),
        late_p99_ms=one.late_p99_ms,
        p50_ms=round(percentile(times_ms, 50), 1),
        p99_ms=round(percentile(times_ms, 99), 1),
        max_ms=round(times_ms[-1], 1),
        backlog=backlog,
        drained_s=drained_s,
        memory=samples.memory_use(),
        cpu=used,
    )
    return RunResult(figures=figures, accepted=one.accepted, arrivals=arrivals, dead_letters=dead_letters)


def runs(
    scratch: Path, size: Size, seed: int, names: Sequence[str] = tuple(RUNS), quiet_s: float = QUIET_S_MAX
) -> list[IsolationFigures]:
    """Each run on its own service, started when the machine is idle, at the latest after `quiet_s`."""
    found = []
    for place, name in enumerate(names):
        data = scratch / f"isolation-{place}"
        with served("service", SERVICE, data) as server:
            await_quiet(quiet_s)
            one = uvloop.run(measure(server, name, size, seed, data / "endpoints"))
        drops = dropped_in(data / "store" / "events")
        outcomes = outcomes_of(one.accepted, one.arrivals, one.dead_letters, drops)
        found.append(msgspec.structs.replace(one.figures, outcomes=outcomes))
        print(found[-1], flush=True)
    return found


def failures(found: Sequence[IsolationFigures]) -> list[str]:
    """Failures that do not depend on the machine's speed."""
    wrong = []
    for one in found:
        if one.outcomes is None or not one.outcomes.complete:
            wrong.append(f"{one.run}: {one.outcomes}")
        if one.drained_s is None:
            wrong.append(f"{one.run}: not drained")
    return wrong
