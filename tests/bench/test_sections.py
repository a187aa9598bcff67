"""The bench's sections at a size that takes seconds: they measure what they claim, at any speed of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.bench.sections import curves, fairness, groups, queue_count, waiting, wide, wide_filters
from lab.bench.sections.drawing import LABEL_GAP, draw
from lab.bench.sections.queue_kinds import KINDS, Kind
from lab.bench.sections.runs import SERVICE, served
from lab.harness.server import Server
from lab.load.filter_mixes import MATCHING
from lab.load.queues import Client
from lab.load.wire import connect
from lab.measure.metrics import metric_total

SHALLOW, DEEP = 20, 60
CYCLES = 3
OF_MESSAGES = {
    "send",
    "receive",
    "change visibility",
    "get attributes",
    "delete",
    "batch send",
    "batch receive",
    "batch change visibility",
    "batch delete",
    "purge",
    "delete queue",
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[int, Server]]]:
    with ExitStack() as stack:
        yield [
            (depth, stack.enter_context(served("service", SERVICE, tmp_path_factory.mktemp(f"depth-{depth}"))))
            for depth in (SHALLOW, DEEP)
        ]


async def _messages_in(server: Server, queue: str) -> int:
    client = Client(server, await connect(server.port, 1), 1)
    url = (await client.ask("GetQueueUrl", QueueName=queue))["QueueUrl"]
    answer = await client.ask("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
    client.close()
    attributes = answer["Attributes"]
    assert isinstance(attributes, dict)
    return sum(int(count) for name, count in attributes.items() if name.startswith("ApproximateNumberOfMessages"))


@pytest.mark.parametrize("kind", KINDS, ids=[kind.file for kind in KINDS])
async def test_curves_keep_each_queue_at_its_depth(servers: list[tuple[int, Server]], kind: Kind) -> None:
    size = curves.Size(depths=(SHALLOW, DEEP), queues=(), cycles=CYCLES, ended=1, ended_messages_max=0)
    figures = await curves.measure_messages(servers, kind, size, 1)
    assert [one.mean_ms.keys() for one in figures] == [OF_MESSAGES] * 2
    held = curves.NOISY if kind.fair else 0
    for depth, server in servers:
        assert await _messages_in(server, kind.queue("deep")) == depth + held


async def test_curves_by_the_number_of_queues(servers: list[tuple[int, Server]]) -> None:
    few, many = await queue_count.measure_queue_counts(servers, CYCLES, 1)
    assert few.mean_ms.keys() == many.mean_ms.keys() >= {"list queues", "list dead-letter sources"}
    client = Client(servers[1][1], await connect(servers[1][1].port, 1), 1)
    listed = (await client.ask("ListQueues", QueueNamePrefix=queue_count.SOURCE))["QueueUrls"]
    assert isinstance(listed, list)
    assert len(listed) == DEEP
    client.close()


async def test_operations_that_depend_on_no_depth(servers: list[tuple[int, Server]]) -> None:
    assert all(ms > 0 for ms in (await queue_count.once(servers[0][1], CYCLES, 1)).values())


async def test_groups_are_blocked_while_others_go_on(servers: list[tuple[int, Server]]) -> None:
    large = groups.Shape(groups=40, blocked=30, each=3)
    (_, one), (_, other) = servers
    figures = await groups.measure([(groups.SMALL, one), (large, other)], CYCLES, 1)
    assert "receive + delete 10" in "\n".join(groups.lines(*figures))
    assert await _messages_in(other, groups.QUEUE) == large.messages


async def test_every_wake_up_arrives_and_every_end_is_counted(servers: list[tuple[int, Server]]) -> None:
    size = waiting.Size(polls=100, queues=10, wakes=20, wait_s=6)
    figures = await waiting.measure(servers[0][1], size, 1)
    assert [len(figures.calm_wakes_ms), len(figures.ending_wakes_ms)] == [size.wakes] * 2
    assert 0.5 < figures.ends_per_s * size.wait_s / size.polls < 2
    assert "MiB" in "\n".join(waiting.lines(figures))


async def test_quiet_tenants_overtake_a_backlog(servers: list[tuple[int, Server]]) -> None:
    size = fairness.Size(backlog=400, each=3, each_without=1)
    fair = await fairness.dwell(servers[0][1], size, 1, "fair", tenants=True)
    plain = await fairness.dwell(servers[0][1], size, 1, "plain", tenants=False)
    assert (fair.messages, plain.messages) == (3 * fairness.QUIET, fairness.QUIET)
    assert fair.p50_ms < plain.p50_ms
    assert len(fairness.lines([fair], plain)) == len(["what", "", "header", "rule", "fair", "plain"])


def test_wide_topics_reach_all(tmp_path: Path) -> None:
    size = wide.Size(subscriptions=(SHALLOW, 150), cycles=CYCLES)
    found, publishes = wide.both(tmp_path, size, 1)
    assert [[one.subscriptions for one in each.fan_outs] for each in found] == [[SHALLOW] * 2, [150] * 2]
    assert all(one.written_mib > 0 for one in found[1].fan_outs)
    assert "| list the topic's, last page |" in "\n".join(wide.lines(found, publishes))


async def test_filters_of_many_let_ten_through(tmp_path: Path) -> None:
    size = wide_filters.Size(filtered=(200, 400), cycles=CYCLES)
    with served("filtered", SERVICE, tmp_path, wide_filters.QUOTAS) as server:
        figures, times = await wide_filters.measure(server, size, 1)
        kept_back = await metric_total(server, "notifications_filtered_out_total")
    assert [one.evaluations for one in figures] == [MATCHING] * 2
    # a publish to a filtered topic reaches ten subscriptions, before and after a change of filters
    publishes = 1 + wide_filters.COUNTED + 2 * 2 * CYCLES
    assert kept_back == sum(publishes * (n - MATCHING) for n in size.filtered)
    assert "**10.0** | **10.0**" in "\n".join(wide_filters.lines(figures, times))


def test_a_drawing_has_a_line_and_a_label_an_operation() -> None:
    times = {f"operation <{n}>": [1.0, 1.0 + n / 100, 1.0 + n / 50] for n in range(12)}
    root = ElementTree.fromstring(draw("a & b", (100, 10_000, 1_000_000), times, 1.2))
    labels = [text for text in root.iter(f"{SVG}text") if (text.text or "").startswith("operation")]
    assert len(labels) == len(times)
    assert len(list(root.iter(f"{SVG}polyline"))) == 2 * len(times)  # a line to each label
    heights = sorted(float(label.attrib["y"]) for label in labels)
    assert min(below - above for above, below in pairwise(heights)) >= LABEL_GAP - 0.1
    assert max(heights) <= float(root.attrib["viewBox"].split()[3])
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")
