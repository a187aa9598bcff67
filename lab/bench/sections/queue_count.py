"""Times of operations on whole queues by the number of queues, and of operations that depend on no size."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

from lab.bench.sections.depth import DepthFigures, Side, Times, compare, means
from lab.harness.server import Server
from lab.load.queues import Client
from lab.load.wire import Script, connect, run

MAKERS = 16
PAGE = 10
"""Size of a listed page, so that answers are equally long at every number of queues."""
SOURCE = "source-"
TARGET = "target"
TAGS = {"team": "load", "stage": "bench"}


async def measure_queue_counts(servers: Sequence[tuple[int, Server]], cycles: int, seed: int) -> list[DepthFigures]:
    """Measure servers with different numbers of queues, all with one dead-letter queue."""
    sides = []
    for n, server in servers:
        client = Client(server, await connect(server.port, MAKERS), seed)
        await client.use_queue(TARGET)
        redrive = await _redrive(client)
        await _make(client, n, redrive)
        sides.append(Side(n, client, partial(_cycle, client, redrive, count())))
    figures = await compare(sides, cycles)
    for side in sides:
        side.client.close()
    return figures


async def once(server: Server, cycles: int, seed: int) -> dict[str, float]:
    """Operation → mean time in ms."""
    client = Client(server, await connect(server.port, 1), seed)
    await client.use_queue("once")
    times: Times = defaultdict(list)

    def script() -> Script:
        for _ in range(cycles):
            yield from _settings(client, times)

    await client.lanes[0].start(script())
    client.close()
    return means(times)


async def _redrive(client: Client) -> dict[str, str]:
    answer = await client.ask("GetQueueAttributes", QueueUrl=client.url, AttributeNames=["QueueArn"])
    attributes = answer["Attributes"]
    assert isinstance(attributes, dict)
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": attributes["QueueArn"], "maxReceiveCount": 5})}


async def _make(client: Client, n: int, redrive: dict[str, str]) -> None:
    names = (f"{SOURCE}{number:05}" for number in range(n))

    def script(names: Iterator[str]) -> Script:
        for name in names:
            yield [], _create(client, name, redrive)

    await run(client.lanes, [script(names) for _ in client.lanes])


def _cycle(client: Client, redrive: dict[str, str], numbers: Iterator[int], times: Times) -> Script:
    """Make, use and delete one more queue whose name sorts in the middle; lists start in the middle."""
    name = f"{SOURCE}00005-{next(numbers)}"
    yield times["create queue"], _create(client, name, redrive)
    yield times["get queue URL"], client.signer.call("GetQueueUrl", json.dumps({"QueueName": name}).encode())
    page = {"MaxResults": PAGE}
    prefix = {"QueueNamePrefix": SOURCE}
    yield times["list queues"], client.signer.call("ListQueues", json.dumps({**prefix, **page}).encode())
    yield times["list dead-letter sources"], client.call("ListDeadLetterSourceQueues", **page)
    url = client.url.removesuffix(TARGET) + name
    yield times["set attributes"], _request(client, "SetQueueAttributes", url, Attributes={"DelaySeconds": "1"})
    yield times["delete queue"], _request(client, "DeleteQueue", url)


def _settings(client: Client, times: Times) -> Script:
    yield times["tag queue"], client.call("TagQueue", Tags=TAGS)
    yield times["list queue tags"], client.call("ListQueueTags")
    yield times["untag queue"], client.call("UntagQueue", TagKeys=list(TAGS))
    grant = {"Label": "load", "AWSAccountIds": ["111122223333"], "Actions": ["SendMessage"]}
    yield times["add permission"], client.call("AddPermission", **grant)
    yield times["remove permission"], client.call("RemovePermission", Label="load")


def _create(client: Client, name: str, attributes: dict[str, str]) -> bytes:
    return client.signer.call("CreateQueue", json.dumps({"QueueName": name, "Attributes": attributes}).encode())


def _request(client: Client, operation: str, url: str, **members: object) -> bytes:
    return client.signer.call(operation, json.dumps({"QueueUrl": url, **members}).encode())
