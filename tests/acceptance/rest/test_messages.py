"""Messages over REST: put, lease, update, acknowledge; every reason why a pop receipt is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from cns.client import AsyncClient, Client, Credentials
from cns.client.values import ReceivedMessage
from lab.harness.service import REGION, Service
from tests.acceptance.rest.refusals import refusal_of

LARGE = "ü" * 500_000


def leased(rest: Client, queue: str, **options: int) -> ReceivedMessage:
    message = rest.next_message(queue, **options)
    assert message is not None
    return message


def test_a_message_from_put_to_acknowledge(rest: Client, queue_name: str) -> None:
    assert rest.next_message(queue_name) is None
    sent = rest.put_message(queue_name, "hello")
    message = leased(rest, queue_name, lease_seconds=60)
    assert (message.message_id, message.body, message.delivery_count) == (sent.message_id, "hello", 1)
    assert rest.next_message(queue_name) is None
    rest.acknowledge_message(queue_name, message.pop_receipt)
    assert refusal_of(rest.acknowledge_message, queue_name, message.pop_receipt) == (404, "MessageDoesNotExist")


def test_a_large_message_arrives_whole(rest: Client, sqs: Any, queue: str) -> None:
    name = queue.rpartition("/")[2]
    rest.put_message(name, LARGE)
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == LARGE


def test_contents_and_lease_are_updated(service: Service, rest: Client, queue_name: str) -> None:
    rest.put_message(queue_name, "draft")
    message = leased(rest, queue_name, lease_seconds=30)
    rest.update_message(queue_name, message.pop_receipt, text="final")
    rest.update_message(queue_name, message.pop_receipt, lease_seconds=90)
    service.advance(60)
    assert rest.next_message(queue_name) is None  # the lease was renewed
    service.advance(31)
    again = leased(rest, queue_name)
    assert (again.message_id, again.body, again.delivery_count) == (message.message_id, "final", 2)


def test_an_ended_lease_is_told_from_a_receipt_that_was_never_issued(rest: Client, queue_name: str) -> None:
    rest.put_message(queue_name, "m")
    first = leased(rest, queue_name, lease_seconds=0)
    second = leased(rest, queue_name)
    assert refusal_of(rest.acknowledge_message, queue_name, first.pop_receipt) == (409, "LeaseExpired")
    assert refusal_of(rest.update_message, queue_name, first.pop_receipt, text="x") == (409, "LeaseExpired")
    assert refusal_of(rest.acknowledge_message, queue_name, "AAAA" + second.pop_receipt[4:]) == (
        400,
        "ReceiptHandleIsInvalid",
    )
    rest.acknowledge_message(queue_name, second.pop_receipt)


def test_browsing_leases_nothing(rest: Client, queue_name: str) -> None:
    for n in range(5):
        rest.put_message(queue_name, f"m{n}")
    rest.put_message(queue_name, "late", delay_seconds=900)
    held = leased(rest, queue_name, lease_seconds=43_200)
    seen: dict[str, str] = {}
    after = ""
    while True:
        page = rest.browse_messages(queue_name, after=after, limit=2)
        seen |= {one.body: one.state for one in page.messages}
        if not page.next:
            break
        after = page.next
    assert seen == {**{f"m{n}": "visible" for n in range(5)}, held.body: "inFlight", "late": "delayed"}
    assert rest.queue_statistics(queue_name).visible == 4


async def test_a_waiting_call_gets_the_next_message(
    service: Service, account: str, root: Credentials, queue_name: str
) -> None:
    async with AsyncClient(service.url, account, root, region=REGION) as client:
        waiting = asyncio.create_task(client.next_message(queue_name, wait_seconds=20))
        while not service.polls_waiting():
            await asyncio.sleep(0.02)
        await client.put_message(queue_name, "at last")
        message = await waiting
    assert message is not None
    assert message.body == "at last"


def test_a_waiting_call_ends_with_its_client(service: Service, http: httpx.Client, account: str, queue: str) -> None:
    path = f"/accounts/{account}/queues/{queue.rpartition('/')[2]}/messages/next"
    with pytest.raises(httpx.ReadTimeout):
        http.get(path, params={"waitSeconds": 20}, timeout=0.5)
    while service.polls_waiting():
        pass


def test_a_fifo_queue(rest: Client, new_name: Any) -> None:
    name = rest.create_queue(f"{new_name()}.fifo", {"FifoQueue": "true"}).name
    assert refusal_of(rest.put_message, name, "m") == (400, "MissingParameter")
    sent = [rest.put_message(name, f"m{n}", group_id="g", deduplication_id=str(n)) for n in range(2)]
    assert sent[0].sequence_number is not None
    first = leased(rest, name)
    rest.update_message(name, first.pop_receipt, text="changed", lease_seconds=0)
    again = leased(rest, name)
    assert (again.body, again.system_attributes["MessageGroupId"]) == ("changed", "g")
    rest.acknowledge_message(name, again.pop_receipt)
    assert leased(rest, name).body == "m1"


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("POST", "/messages", {"json": {"body": ""}}, 400),
        ("POST", "/messages", {"json": {"body": "m", "delaySeconds": 901}}, 400),
        ("POST", "/messages", {"content": b"{"}, 400),
        ("POST", "/messages", {"content": b'{"body":"\\ud800"}', "headers": {"content-type": "application/json"}}, 400),
        ("GET", "/messages/next", {"params": {"leaseSeconds": 43_201}}, 400),
        ("GET", "/messages/next", {"params": {"waitSeconds": "soon"}}, 400),
        ("GET", "/messages", {"params": {"after": "nowhere"}}, 400),
        ("PUT", "/messages", {"params": {"popReceipt": "x"}, "json": {}}, 400),
        ("DELETE", "/messages", {}, 400),
        ("TRACE", "/messages", {}, 405),
    ],
)
def test_bad_requests(
    http: httpx.Client, account: str, queue_name: str, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    answer = http.request(method, f"/accounts/{account}/queues/{queue_name}{path}", **options)
    assert answer.status_code == status, answer.text
    assert answer.json()["status"] == status
