"""The REST API's debug views of queues on the engines that have views of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import httpx
import pytest

from cns.client import Client, Credentials
from lab.harness import commands
from lab.harness.clustered import Clustered
from lab.harness.service import REGION
from lab.harness.waiting import wait_until
from tests.acceptance.rest.refusals import refusal_of


@pytest.fixture(scope="module")
def account(service: Clustered) -> str:
    return str(service.client("sts").get_caller_identity()["Account"])


@pytest.fixture
def rest(service: Clustered, account: str) -> Iterator[Client]:
    keys = service.environment
    credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
    with Client(service.url, account, credentials, region=REGION) as client:
        yield client


@pytest.fixture
def operator(service: Clustered, account: str) -> Iterator[Client]:
    token = service.cns("operator", "token").stdout.strip()
    with Client(service.url, account, Credentials(token=token), region=REGION) as client:
        yield client


@pytest.mark.slice
def test_buckets_and_pointers(rest: Client, operator: Client, new_name: Callable[[], str]) -> None:
    queue = rest.create_queue(new_name(), {"Engine": "cassieq", "BucketSize": "4"}).name
    sent = [rest.put_message(queue, f"m{n}").message_id for n in range(4)]
    following = rest.monoton(queue)
    assert following >= 4
    for _ in range(3):
        message = rest.next_message(queue, lease_seconds=3_600, wait_seconds=20)
        assert message is not None
        rest.acknowledge_message(queue, message.pop_receipt)
    found = [one for n in range(following // 4 + 1) for one in rest.bucket(queue, n).messages]
    assert {one.message_id for one in found} == set(sent)
    (left,) = [one for one in found if not one.acknowledged]
    assert left.delivery_count == 0
    current = rest.bucket(queue)
    assert rest.bucket(queue, current.bucket) == current
    pointers = rest.pointers(queue)
    assert pointers.bucket_size == 4
    assert pointers.reader == current.bucket >= pointers.repair >= 0
    assert rest.stored_message(queue, left.pointer).body == f"m{sent.index(left.message_id)}"
    shown = operator.stored_message(queue, left.pointer)
    assert (shown.message_id, shown.body) == (left.message_id, None), "operators see no messages"
    assert operator.pointers(queue) == pointers
    assert refusal_of(rest.stored_message, queue, following + 1_000) == (404, "MessageDoesNotExist")


def test_pointers_in_different_buckets(
    service: Clustered, rest: Client, account: str, new_name: Callable[[], str]
) -> None:
    """A message that is leased for long holds up one pointer; the reader goes on, and what it leaves is sealed."""
    queue = rest.create_queue(new_name(), {"Engine": "cassieq", "BucketSize": "2"}).name
    for n in range(8):
        rest.put_message(queue, f"m{n}")
    held = rest.next_message(queue, lease_seconds=43_200, wait_seconds=20)
    while (message := rest.next_message(queue, lease_seconds=43_200)) is not None:
        rest.acknowledge_message(queue, message.pop_receipt)
    assert held is not None

    def apart() -> bool:
        service.advance(60)
        pointers = rest.pointers(queue)
        return pointers.reader > pointers.repair >= 0 or pointers.reader > pointers.invisibility

    wait_until(apart, lambda: f"{rest.pointers(queue)}")
    first = next(n for n in range(rest.pointers(queue).reader) if rest.bucket(queue, n).messages)
    answer = httpx.get(
        f"{service.url}/api/v1/debug/accounts/{account}/queues/{queue}/buckets/{first}/tombstone",
        auth=(service.environment["AWS_ACCESS_KEY_ID"], service.environment["AWS_SECRET_ACCESS_KEY"]),
        params={"region": REGION},
    )
    assert answer.json() == {"bucket": first, "sealedAt": rest.bucket(queue, first).sealed_at}
    assert rest.bucket(queue, first).sealed_at


def test_statistics_of_pipes(service: Clustered, rest: Client, new_name: Callable[[], str]) -> None:
    queue = rest.create_queue(new_name(), {"Engine": "pipes"}).name
    for n in range(5):
        rest.put_message(queue, f"m{n}")
    for _ in range(2):
        assert rest.next_message(queue, lease_seconds=43_200, wait_seconds=20) is not None

    def counted() -> bool:
        service.advance(10)
        totals = rest.queue_statistics(queue).totals
        return totals is not None and (totals.pushed, totals.popped, totals.depth) == (5, 2, 3)

    wait_until(counted, lambda: f"{rest.queue_statistics(queue)}")
    rest.put_message(queue, "one more")

    def flowing() -> bool:
        service.advance(10)
        totals = rest.queue_statistics(queue).totals
        return totals is not None and totals.pushed == 6 and totals.pushed_per_second > 0

    wait_until(flowing, lambda: f"{rest.queue_statistics(queue)}")
    hours = rest.queue_statistics(queue, by_hour=True).hours
    assert hours and (sum(one.pushed for one in hours), sum(one.popped for one in hours)) == (6, 2)
    caller = {**os.environ, **service.environment, "AWS_ENDPOINT_URL": service.url, "AWS_REGION": REGION}
    shown = commands.run("queue", "statistics", queue, "--by-hour", environment=caller).stdout.splitlines()
    assert len(shown) == 1 + len(hours)
    assert shown[1].split()[2:] == [f"{hours[0].pushed}", f"{hours[0].popped}", "4"]


def test_other_engines_have_no_buckets(rest: Client, new_name: Callable[[], str]) -> None:
    queue = rest.create_queue(new_name(), {"Engine": "bdqs"}).name
    for view in (rest.pointers, rest.monoton, rest.bucket):
        assert refusal_of(view, queue) == (422, "EngineHasNoSuchView")
    counted = rest.queue_statistics(queue, by_hour=True)
    assert (counted.totals, counted.hours) == (None, None)


def test_the_stored_queues(operator: Client, rest: Client, new_name: Callable[[], str]) -> None:
    queue = rest.create_queue(new_name(), {"Engine": "cassieq", "BucketSize": "7", "VisibilityTimeout": "9"}).name
    stored, after = [], ""
    while True:
        page = operator.stored_queues(after)
        stored += page.queues
        if not (after := page.next or ""):
            break
    (found,) = [one for one in stored if one.name == queue]
    assert (found.engine, found.options["BucketSize"], found.attributes["VisibilityTimeout"]) == ("cassieq", "7", "9")
    assert sorted(one.name for one in stored) == [one.name for one in stored]
