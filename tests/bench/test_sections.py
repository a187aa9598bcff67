"""The bench's sections at a size that takes seconds: they measure what they claim, at any speed of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from lab.bench.drawing import LABEL_GAP, draw
from lab.bench.sections import curves, waiting
from lab.bench.sections.depth import KINDS, NOISY, Kind
from lab.bench.servers import service
from lab.harness.server import Server
from lab.load.queues import open_client

SHALLOW, DEEP = 20, 60
CYCLES = 3
OF_MESSAGES = {
    *("send", "receive", "change visibility", "get attributes", "delete"),
    *("batch send", "batch receive", "batch change visibility", "batch delete", "purge", "delete queue"),
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[int, Server]]]:
    with ExitStack() as stack:
        yield [
            (depth, stack.enter_context(service(tmp_path_factory.mktemp(f"depth-{depth}"))))
            for depth in (SHALLOW, DEEP)
        ]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.file for kind in KINDS])
async def test_curves_keep_each_queue_at_its_depth(servers: list[tuple[int, Server]], kind: Kind) -> None:
    size = curves.Size(depths=(SHALLOW, DEEP), cycles=CYCLES, ended=1, ended_messages_max=0)
    figures = await curves.measure(servers, kind, size, 1)
    assert [one.mean_ms.keys() for one in figures] == [OF_MESSAGES] * 2
    for depth, server in servers:
        client = await open_client(server, 1, 1)
        client.url = str((await client.ask("GetQueueUrl", QueueName=kind.queue("deep")))["QueueUrl"])
        counts = await client.attributes()
        client.close()
        messages = sum(int(n) for name, n in counts.items() if name.startswith("ApproximateNumberOfMessages"))
        assert messages == depth + (NOISY if kind.fair else 0)


async def test_every_wake_up_arrives_and_every_end_is_counted(servers: list[tuple[int, Server]]) -> None:
    size = waiting.Size(polls=100, queues=10, wakes=20, wait_s=6)
    figures = await waiting.measure(servers[0][1], size, 1)
    assert [len(figures.calm_wakes_ms), len(figures.ending_wakes_ms)] == [size.wakes] * 2
    assert 0.5 < figures.ending.ends / figures.ending.seconds * size.wait_s / size.polls < 2
    assert "MiB" in "\n".join(waiting.lines(figures))


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
