"""The fault receiver: records, counters, waits, journal and page."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from yarl import URL

from cns_receiver import endpoint as receiver_endpoint
from cns_receiver import endpoints as receiver_endpoints
from cns_receiver.endpoint import Capacity
from cns_receiver.endpoints import Endpoints
from cns_receiver.http_server import TARGET_BYTES_MAX, IncomingRequest
from cns_receiver.id_counts import IdCapacity, IdCounts
from cns_receiver.journal import Journal, JournalEntry, read_journal
from cns_receiver.receiver import ReceiverOptions
from tests.integration.receiver.receiver_support import SUBSCRIPTION, TOPIC, Client, start_receiver


async def test_the_record_of_a_delivery() -> None:
    async with start_receiver(ReceiverOptions(body_bytes=5, verify="off")) as client:
        assert await client.notify("a?tag=x", "m-1", b"1234567890", traceparent="00-1") == 200
        shown = await client.show("a")
    (message,) = shown["messages"]
    assert (message["type"], message["message_id"], message["subscription_arn"]) == (
        "Notification",
        "m-1",
        SUBSCRIPTION,
    )
    assert (message["attempt"], message["status"], message["signature"]) == (1, 200, "unchecked")
    assert (message["body"], message["body_bytes"], message["target"]) == ("12345", 10, "/endpoint/a?tag=x")
    assert message["headers"]["x-amz-sns-topic-arn"] == TOPIC
    assert message["headers"]["traceparent"] == "00-1"
    assert shown["first_ms"] == shown["last_ms"] == message["arrived_ms"]


async def test_a_message_without_id_is_identified_by_its_body(client: Client) -> None:
    bodies = (
        b'{"Type":"Notification","MessageId":"m-9"}',
        b'{"MessageId":"a b"}',
        b"[",
        b"[" * 100_000,
        b"\xff",
        b"",
    )
    for body in bodies:
        async with client.session.post(client.url + "/endpoint/a", data=body) as answer:
            assert answer.status == 200
    shown = await client.show("a")
    assert (shown["received"], shown["unidentified"]) == (len(bodies), len(bodies) - 1)
    assert await client.ids("a") == {"m-9": 1}


async def test_retries_are_not_duplicates() -> None:
    async with start_receiver() as client:
        await client.put_page("a", "behaviour", {"status": 500, "times": 2})
        statuses = [await client.notify("a", "m-1") for _ in range(4)]
        await client.notify("a", "m-2")
        shown = await client.show("a")
        assert await client.ids("a") == {"m-1": 4, "m-2": 1}
    assert statuses == [500, 500, 200, 200]
    assert [message["attempt"] for message in shown["messages"]] == [1, 2, 3, 4, 1]
    counts = {"received": 5, "accepted": 3, "distinct_messages": 2, "retries": 2, "duplicates": 1}
    assert {name: shown[name] for name in counts} == counts


async def test_only_accepted_messages_count_as_delivered(client: Client) -> None:
    await client.notify("a?status=500&times=1", "m-1")
    await client.notify("a?status=500&times=1", "m-2")
    assert await client.ids("a", "?accepted=true") == {"m-2": 1}


def test_a_message_for_two_subscriptions_is_one_message() -> None:
    id_counts = IdCounts(IdCapacity())
    assert [id_counts.arrive(b"m", b"one"), id_counts.arrive(b"m", b"two"), id_counts.arrive(b"n", b"two")] == [1, 1, 1]
    assert (id_counts.distinct_messages, id_counts.retries, id_counts.ids()) == (2, 0, {"m": 2, "n": 1})


def test_ids_are_limited_and_others_counted() -> None:
    capacity = IdCapacity(2)
    id_counts, other = IdCounts(capacity), IdCounts(capacity)
    for message_id in (b"1", b"2", b"3", b"1"):
        id_counts.arrive(message_id, b"")
    id_counts.accept(b"3", b"")
    assert (id_counts.ids(), id_counts.forgotten) == ({"1": 2, "2": 1}, 1)
    id_counts.clear()
    assert other.arrive(b"4", b"") == 1
    assert (other.ids(), capacity.left) == ({"4": 1}, 1)


async def test_records_are_bounded_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_receiver(ReceiverOptions(keep=3, verify="off")) as client:
        for number in range(5):
            await client.notify("a", f"m-{number}")
        shown = await client.show("a", n=100)
        assert [message["message_id"] for message in shown["messages"]] == ["m-2", "m-3", "m-4"]
        assert [message["message_id"] for message in (await client.show("a", n=1))["messages"]] == ["m-4"]
        monkeypatch.setattr(receiver_endpoint, "RECORDS_BYTES_MAX", 100)
        await client.notify("b", "m-5")
        await client.notify("a", "m-6")
        assert [message["message_id"] for message in (await client.show("a"))["messages"]] == ["m-6"]
        assert [message["message_id"] for message in (await client.show("b"))["messages"]] == ["m-5"]
        assert (await client.show("a"))["received"] == 6


@pytest.mark.parametrize("limit", ["ENDPOINTS_MAX", "ROUTES_MAX"])
async def test_endpoints_are_bounded(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(receiver_endpoints, limit, 1)
    async with start_receiver() as client:
        assert [await client.notify("a"), await client.notify("b"), await client.notify("a")] == [200, 503, 200]
        await client.delete("a")
        await client.delete("b")
        assert await client.notify("b") == 200


def test_the_newest_records_of_all_endpoints_fit_into_their_memory() -> None:
    """An endpoint always keeps its newest record, whose headers, target and body are bounded."""
    headers = {b"h%d" % number: b"" for number in range(8_000)}
    endpoint = Endpoints(Capacity(records_max=1, body_bytes_kept=4_096)).get("a")
    record = endpoint.record(1, IncomingRequest(b"POST", b"/" * TARGET_BYTES_MAX, headers, bytes(10_000), True))
    assert 0 < len(record.headers) < 200
    largest = receiver_endpoint._bytes_of(record)
    assert largest * receiver_endpoints.ENDPOINTS_MAX <= receiver_endpoint.RECORDS_BYTES_MAX


def test_a_full_memory_of_ids_takes_no_names_of_subscriptions() -> None:
    counts = IdCounts(IdCapacity(ids_max=1))
    for number in range(10):
        counts.arrive(b"m", b"subscription-%d" % number)
    assert (len(counts._states), counts.forgotten) == (1, 9)


def test_deleted_endpoints_free_their_memory() -> None:
    capacity = Capacity(records_max=10, body_bytes_kept=10)
    endpoints, ids = Endpoints(capacity), capacity.ids.left
    for type_ in (b"Notification", b"SubscriptionConfirmation"):
        headers = {b"x-amz-sns-message-type": type_, b"x-amz-sns-message-id": b"m"}
        endpoints.get("a").record(1, IncomingRequest(b"POST", b"/endpoint/a", headers, b"body", True))
    assert (capacity.ids.left, capacity.used_bytes > 0) == (ids - 2, True)
    endpoints.forget(endpoints.get("a"))
    assert (capacity.ids.left, capacity.used_bytes, list(endpoints)) == (ids, 0, [])


async def test_a_client_can_wait(client: Client) -> None:
    waiting = asyncio.create_task(client.show("a", received=2, accepted=1))
    await client.notify("a", "m-1")
    assert not waiting.done()
    await client.notify("a", "m-2")
    assert (await waiting)["received"] == 2
    assert (await client.show("a", received=99, wait_s="0.01"))["received"] == 2


async def test_an_endpoint_can_be_forgotten(client: Client) -> None:
    await client.put_page("a", "behaviour", {"status": 500})
    await client.notify("a")
    await client.notify("a?status=503")
    assert await client.delete("a") == 204
    assert await client.notify("a", "m-2") == 200
    shown = await client.show("a")
    assert (shown["received"], shown["behaviour"], await client.ids("a")) == (1, None, {"m-2": 1})


async def test_a_journal_outlives_the_receiver(tmp_path: Path) -> None:
    options = ReceiverOptions(journal=tmp_path / "journal")
    async with start_receiver(options) as client:
        await client.notify("gone")
        await client.delete("gone")
        await client.post_confirmation("a", "")
        await client.notify("a?status=500&times=1", "m-1")
        await client.notify("a?status=500&times=1", "m-1")
        before = await client.show("a", n=0)
    with (tmp_path / "journal").open("ab") as file:
        file.write(b"nonsense\n1\ta\tm-3\t\t20")  # as if the receiver had died while it wrote a line
    async with start_receiver(options) as client:
        after = await client.show("a")
        assert (await client.show("gone"))["received"] == 0
        for name in ("received", "accepted", "distinct_messages", "retries", "duplicates", "first_ms", "last_ms"):
            assert after[name] == before[name], name
        await client.notify("a", "m-1")
        assert (await client.show("a"))["duplicates"] == 1
    async with start_receiver(options) as client:
        assert await client.ids("a") == {"m-1": 3}


def test_a_partial_journal_line_is_removed(tmp_path: Path) -> None:
    class FullDisk(io.FileIO):
        def write(self, line: bytes) -> int:  # type: ignore[override]
            return super().write(line[:7])

    path = tmp_path / "journal"
    journal = Journal(path)
    assert journal.delivered(1, "a", b"m-1", b"s", 200)
    with FullDisk(path, "ab") as file:
        journal._file, kept = file, journal._file
        assert not journal.delivered(2, "a", b"m-2", b"s", 200)
    journal._file = kept
    assert journal.cleared(3, "a")
    journal.close()
    assert path.read_bytes() == b"1\ta\tm-1\ts\t200\n3\ta\t\t\tcleared\n"
    assert list(read_journal(path)) == [JournalEntry(1, "a", b"m-1", b"s", 200), JournalEntry(3, "a", b"", b"", None)]


async def test_a_message_that_cannot_be_journalled_is_not_accepted() -> None:
    async with start_receiver(ReceiverOptions(journal=Path("/dev/full"))) as client:
        assert await client.notify("a") == 500
        assert (await client.show("a"))["accepted"] == 0


async def test_the_page_lists_messages() -> None:
    async with start_receiver() as client:
        async with client.session.get(client.url + "/") as answer:
            assert "Nothing has come yet" in await answer.text()
        await client.notify("orders")
        await client.put_page("orders", "behaviour", {"status": 500, "body": "<script>"})
        async with client.session.get(client.url + "/") as answer:
            text = await answer.text()
    assert answer.content_type == "text/html"
    assert '<a href="/endpoint/orders">orders</a></th><td>1</td>' in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("HEAD", "/endpoint/a", 200),
        ("POST", "/", 405),
        ("PATCH", "/endpoint/a", 405),
        ("DELETE", "/endpoint/a/ids", 405),
        ("GET", "/endpoint/a/nothing", 404),
        ("GET", "/endpoint/", 404),
        ("POST", "/endpoint/a%20b", 404),
        ("POST", f"/endpoint/{'a' * 65}", 404),
        ("GET", "//[", 404),
        ("GET", "/endpoint/a?n=-1", 400),
        ("GET", "/endpoint/a?n=x", 400),
        ("GET", "/endpoint/a?wait_s=1&received=x", 400),
        ("GET", "/endpoint/a?recieved=1", 400),
        ("GET", "/endpoint/a?" + "&".join(f"n{n}=1" for n in range(40)), 400),
    ],
)
async def test_requests_get_their_status(method: str, path: str, status: int) -> None:
    async with (
        start_receiver() as client,
        client.session.request(method, URL(client.url + path, encoded=True), allow_redirects=False) as answer,
    ):
        assert answer.status == status
