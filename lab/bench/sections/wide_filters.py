"""The filter policies of the section `wide`: many subscriptions of which ten match a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from time import perf_counter

import msgspec
import uvloop

from cns.filters.evaluation import matches
from lab.bench.sections.depth import DepthFigures, Side, Times, compare
from lab.bench.sections.runs import SERVICE, served
from lab.harness.server import Server
from lab.load.filter_mixes import MATCHING, MIXES
from lab.load.polls import BYTES_PER_MIB
from lab.load.queues import Client
from lab.load.topics import Topic, all_of, make_queues, subscription_in
from lab.load.wide_topic import publish_cycle
from lab.load.wire import LoadError, Script, connect
from lab.measure.figures import bar_cell
from lab.measure.metrics import metric_total

CONNECTIONS = 16
QUOTAS = {"CNS_QUOTA_FILTER_POLICIES": "1000000", "CNS_QUOTA_TOPIC_FILTER_POLICIES": "1000000"}
(MIX,) = [mix for mix in MIXES if mix.name == "two exact keys"]
EVALUATIONS = "filter_evaluations_total"
EVALUATIONS_MAX = 20
COUNTED = 20


class Size(msgspec.Struct, frozen=True, kw_only=True):
    filtered: tuple[int, int]
    cycles: int


FULL = Size(filtered=(10_000, 100_000), cycles=200)


class FilteredFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a topic with a number of filtered subscriptions."""

    filtered: int
    subscribes_per_s: float  # over all connections
    first_ms: float  # the first publish of a process, which reads the filters
    held_mib: float  # memory of the filters
    evaluations: float  # a publish


class _FilteredTopic:
    """A topic whose subscriptions have the policies of `MIX`."""

    def __init__(self, client: Client, n: int) -> None:
        self.client = client
        self.topic = Topic(client)
        self._n = n
        self._body = client.body()
        self._changed = ""

    async def fill(self) -> float:
        """Make the subscriptions. Returns calls per second."""
        await self.topic.open(f"filtered-{self._n}")
        per_s = await all_of(self.client, (self.subscribe(number) for number in range(self._n)))
        again = self.subscribe(self._n - 1)
        self._changed = subscription_in(await self.client.lanes[0].ask(again))
        return per_s

    def subscribe(self, number: int) -> bytes:
        return self.topic.subscribe(number, {"FilterPolicy": self._policy(number)})

    def publish(self) -> bytes:
        return self.topic.publish(self._body, MIX.attributes)

    def cycle(self) -> Callable[[Times], Script]:
        """A script: publish, change a filter to one of two in turn, publish again."""
        policies = cycle([self._policy(self._n - 2), self._policy(self._n - 1)])

        def script(times: Times) -> Script:
            yield times["publish"], self.publish()
            change = {"AttributeName": "FilterPolicy", "AttributeValue": next(policies)}
            changing = self.topic.call("SetSubscriptionAttributes", SubscriptionArn=self._changed, **change)
            yield times["set filter policy"], changing
            yield times["publish after it"], self.publish()

        return script

    def _policy(self, number: int) -> str:
        return json.dumps(MIX.policy(*divmod(number, MATCHING)))

    async def first_publish(self) -> tuple[float, float]:
        """Time in ms, and growth of the server's memory in MiB."""
        before, began_s = self.client.server.resident_bytes(), perf_counter()
        await self.client.lanes[0].ask(self.publish())
        taken_s = perf_counter() - began_s
        return taken_s * 1000, (self.client.server.resident_bytes() - before) / BYTES_PER_MIB

    async def evaluations(self) -> float:
        """Mean number of policy evaluations per publish."""
        before = await metric_total(self.client.server, EVALUATIONS)
        for _ in range(COUNTED):
            await self.client.lanes[0].ask(self.publish())
        return (await metric_total(self.client.server, EVALUATIONS) - before) / COUNTED


async def measure(server: Server, size: Size, seed: int) -> tuple[list[FilteredFigures], list[DepthFigures]]:
    """Figures by number of filters, and times, also of a topic with ten subscriptions without filters."""
    client = Client(server, await connect(server.port, CONNECTIONS), seed)
    plain = await _plain(client, size)
    sides = [Side(MATCHING, client, publish_cycle(plain, client.body(), MIX.attributes))]
    figures = []
    for n in size.filtered:
        topic = _FilteredTopic(client, n)
        per_s = await topic.fill()
        first_ms, held_mib = await topic.first_publish()
        figures.append(
            FilteredFigures(
                filtered=n,
                subscribes_per_s=per_s,
                first_ms=first_ms,
                held_mib=held_mib,
                evaluations=await topic.evaluations(),
            )
        )
        sides.append(Side(n, client, topic.cycle()))
    times = await compare(sides, size.cycles)
    client.close()
    return figures, times


async def _plain(client: Client, size: Size) -> Topic:
    """A topic without filters, with the queues that `MIX` matches; makes only these queues."""
    values = MIX.message_values()
    reached = [n for n, policy in enumerate(MIX.policies(range(min(size.filtered)))) if matches(policy, values)]
    if len(reached) != MATCHING:
        raise LoadError(f"the message is for {len(reached)} of them")
    topic = Topic(client)
    await topic.open("plain")
    await make_queues(topic, reached)
    await all_of(client, (topic.subscribe(number, {}) for number in reached))
    return topic


# -- its part of the section ------------------------------------------------------------------------------------------


def table(scratch: Path, seed: int) -> list[str]:
    with served("filtered", SERVICE, scratch / "wide-filtered", QUOTAS) as server:
        return lines(*uvloop.run(measure(server, FULL, seed)))


def lines(figures: Sequence[FilteredFigures], times: Sequence[DepthFigures]) -> list[str]:
    plain, *filtered = times
    header = " | ".join(f"{one.filtered:,}" for one in figures)
    plain_ms = plain.mean_ms["publish"]
    rows: dict[str, list[str]] = {
        "policy evaluations per publish": [f"**{one.evaluations:.1f}**" for one in figures],
        "Subscribe calls/s": [f"{one.subscribes_per_s:,.0f}" for one in figures],
        "first publish, ms (it reads the filters)": [f"{one.first_ms:,.0f}" for one in figures],
        "MiB these filters take": [f"{one.held_mib:.0f}" for one in figures],
        **{f"{name}, mean ms": [f"{one.mean_ms[name]:.3f}" for one in filtered] for name in filtered[0].mean_ms},
        "publish, relative to ten unfiltered": [f"{one.mean_ms['publish'] / plain_ms:.2f}" for one in filtered],
    }
    allowed = (EVALUATIONS_MAX, 2 * EVALUATIONS_MAX)
    met = all(one.evaluations <= bar for one, bar in zip(figures, allowed, strict=True))
    bars = {"policy evaluations per publish": bar_cell(f"≤ {allowed[0]}, ≤ {allowed[1]}", met=met)}
    return [
        f"Filtered subscriptions, each with its own policy of two keys; {MATCHING} of them match. A publish to"
        f" {MATCHING} subscriptions without filters takes {plain_ms:.3f} ms.",
        "",
        f"| filtered subscriptions | {header} | bar |",
        "|---" * (len(figures) + 2) + "|",
        *[f"| {name} | {' | '.join(row)} | {bars.get(name, '')} |" for name, row in rows.items()],
    ]
