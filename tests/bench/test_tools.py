"""The bench's own tools: errors in the signer, percentile or parser would go unnoticed in the figures."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import statistics
import time
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from lab.bench.servers import FLOOR
from lab.harness.server import Server, running
from lab.harness.signing import Credentials, QuerySigner, Signer
from lab.harness.usage import listeners, sockets
from lab.load import workloads
from lab.load.endpoints import Sink
from lab.load.queues import Client, accepted, handles_in, open_client
from lab.load.wire import Budget, Lane, LoadError, Script, connect
from lab.measure.backends import CounterSnapshot, costs_between
from lab.measure.figures import Figures, percentile
from lab.measure.statement_count import Statements

CREDENTIALS = Credentials(key_id="AKIDEXAMPLE", secret="secret", region="eu-west-3")
LATE_S = 0.3


class Wire(asyncio.WriteTransport):
    """Accepts writes and discards them."""

    def write(self, data: object) -> None: ...
    def abort(self) -> None: ...


@pytest.mark.parametrize(
    ("operation", "body"),
    [("SendMessage", b'{"QueueUrl":"q","MessageBody":"x"}'), ("", b"Action=Publish&Message=caf%C3%A9")],
    ids=["json", "form"],
)
def test_signs_as_botocore_does(operation: str, body: bytes) -> None:
    signer = Signer(CREDENTIALS, "sqs", "127.0.0.1:6059")
    request = (signer.call(operation, body) if operation else signer.form(body)).decode()
    head, _, _ = request.partition("\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
    theirs = AWSRequest("POST", "http://127.0.0.1:6059/", data=body)
    for name in ("Content-Type", "X-Amz-Target"):
        if name in headers:
            theirs.headers[name] = headers[name]
    theirs.context["timestamp"] = headers["X-Amz-Date"]
    theirs.headers["X-Amz-Date"] = headers["X-Amz-Date"]
    auth = SigV4Auth(BotocoreCredentials("AKIDEXAMPLE", "secret"), "sqs", "eu-west-3")
    signature = auth.signature(auth.string_to_sign(theirs, auth.canonical_request(theirs)), theirs)
    assert headers["Authorization"].endswith(f"Signature={signature}")
    assert headers["Content-Length"] == str(len(body))


def test_calls_of_queues_in_the_query_protocol() -> None:
    members = {
        "QueueUrl": "http://h/q",
        "Attributes": {"DelaySeconds": "1", "Policy": "{}"},
        "Entries": [{"Id": "0", "MessageBody": "a b"}, {"Id": "1", "MessageBody": "c"}],
        "AttributeNames": ["All"],
        "MaxNumberOfMessages": 2,
    }
    request = QuerySigner(CREDENTIALS, "sqs", "127.0.0.1:6059").call("SendMessageBatch", json.dumps(members).encode())
    head, _, body = request.decode().partition("\r\n\r\n")
    assert "X-Amz-Target" not in head
    assert dict(parse_qsl(body)) == {
        "Action": "SendMessageBatch",
        "Version": "2012-11-05",
        "QueueUrl": "http://h/q",
        "Attribute.1.Name": "DelaySeconds",
        "Attribute.1.Value": "1",
        "Attribute.2.Name": "Policy",
        "Attribute.2.Value": "{}",
        "SendMessageBatchRequestEntry.1.Id": "0",
        "SendMessageBatchRequestEntry.1.MessageBody": "a b",
        "SendMessageBatchRequestEntry.2.Id": "1",
        "SendMessageBatchRequestEntry.2.MessageBody": "c",
        "AttributeName.1": "All",
        "MaxNumberOfMessages": "2",
    }


@pytest.mark.parametrize(
    "answer",
    [
        b'{"Messages": [{"ReceiptHandle": "a+1/="}, {"ReceiptHandle":"b"}]}',
        b"<ReceiptHandle>a+1/=</ReceiptHandle>\n <X/><ReceiptHandle>b</ReceiptHandle>",
    ],
    ids=["json", "query"],
)
def test_reads_the_handles_of_an_answer(answer: bytes) -> None:
    assert handles_in(answer) == [b"a+1/=", b"b"]


@pytest.mark.parametrize(
    ("answer", "is_accepted"),
    [
        (b'{"Successful": [{"Id": "0"}]}', True),
        (b'{"Successful": [{"Id": "0"}], "Failed": []}', True),
        (b'{"Successful": [], "Failed": [{"Id": "0"}]}', False),
        (b'{"Successful":[],"Failed":[{"Id":"0"}]}', False),
        (b"<BatchResultErrorEntry><Id>0</Id></BatchResultErrorEntry>", False),
    ],
)
def test_a_refused_entry_of_a_batch_is_an_error(answer: bytes, is_accepted: bool) -> None:
    with nullcontext() if is_accepted else pytest.raises(LoadError, match="refused"):
        assert accepted(answer) == answer


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([1.0], 50, 1.0),
        ([1.0], 99, 1.0),
        ([1.0, 2.0, 3.0], 50, 2.0),
        ([float(n) for n in range(1, 201)], 99, 198.0),
    ],
)
def test_percentile_is_the_nearest_rank(values: list[float], percent: int, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_finds_listeners_and_the_ports_of_a_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        assert listeners(port, "127.0.0.1") == [os.getpid()]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert {port, connection.getsockname()[1]} <= sockets(os.getpid()).local


def test_costs_are_what_was_added_per_unit() -> None:
    figures = Figures(
        workload="send",
        server="service",
        connections=1,
        units=10,
        seconds=2.0,
        per_s=5.0,
        p50_ms=0.0,
        p95_ms=0.0,
        p99_ms=0.0,
        mean_ms=0.0,
        server_us=0.0,
        generator_us=0.0,
        others_share=1.0,
    )
    before = CounterSnapshot(statements=Statements(12), commands={"evalsha": 3}, cassandra_s=1.0, redis_s=0.5)
    after = CounterSnapshot(
        statements=Statements(27, 1),
        commands={"evalsha": 13, "zadd": 20, "info": 4},
        cassandra_s=1.001,
        redis_s=0.5005,
    )
    costs = costs_between(before, after, figures)
    assert (costs.statements, costs.redis_calls, costs.redis_commands) == (1.5, 1.0, 2.0)
    assert (costs.cassandra_us, costs.redis_us) == (100.0, 50.0)


def test_arrivals_come_at_the_rate_and_are_independent() -> None:
    planned_ns = workloads.arrivals_ns(random.Random(1), 200.0, 50.0)
    gaps_s = [(later - sooner) / 1e9 for sooner, later in pairwise(planned_ns)]
    assert len(planned_ns) == 10_000
    assert statistics.fmean(gaps_s) == pytest.approx(1 / 200, rel=0.05)
    assert statistics.stdev(gaps_s) == pytest.approx(1 / 200, rel=0.05)


async def test_a_stall_counts_for_the_calls_it_delayed() -> None:
    """One connection, a call every few ms, the first answer 0.3 s late: times of later calls include their wait."""
    client = Client(Server(name="late", port=0, pid=os.getpid(), credentials=CREDENTIALS, data=Path()), [], 1)

    class Late(Lane):
        first = True

        async def ask(self, _request: bytes) -> bytes:
            if self.first:
                self.first = False
                await asyncio.sleep(LATE_S)  # the server is late, not the client
            return b'"ReceiptHandle":"h"'

    client.lanes = [Late()]
    figures = await workloads.paced(client, [b"h"], per_s=300.0, seconds=0.1)
    assert all(each.p50_ms > LATE_S * 1000 / 2 for each in figures)


def test_a_budget_ends_by_units_and_by_time() -> None:
    assert [Budget(3, 60).take(2), Budget(1, 60).take(2), Budget(3, 0).take()] == [True, False, False]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"],
        [b"HTTP/1.1 200 OK\r\ncontent-le", b"ngth: 4\r\n\r", b"\nbo", b"dy"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\n", b"bod\r\n1\r\n", b"y\r\n0\r\n\r\n"],
    ],
    ids=["whole", "in pieces", "in chunks"],
)
async def test_an_answer_arrives_whole(pieces: list[bytes]) -> None:
    lane = Lane()
    lane.connection_made(Wire())
    asked = asyncio.ensure_future(lane.ask(b"?"))
    await asyncio.sleep(0)
    for piece in pieces:
        assert not asked.done()
        lane.data_received(piece)
    assert await asked == b"body"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", "403"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "no Content-Length"),
        (None, "hung up"),
    ],
)
async def test_an_invalid_answer_fails_the_run(answer: bytes | None, reason: str) -> None:
    lane = Lane()
    lane.connection_made(Wire())
    asked = asyncio.ensure_future(lane.ask(b"?"))
    await asyncio.sleep(0)
    lane.data_received(answer) if answer else lane.connection_lost(None)
    with pytest.raises(LoadError, match=reason):
        await asked


@pytest.mark.parametrize("says_so", [True, False])
async def test_a_connection_that_the_server_ends_is_made_anew_if_it_says_so(says_so: bool) -> None:
    asked: list[bytes] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + b"Connection: close\r\n" * says_so + b"\r\n!")
        writer.close()

    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    (lane,) = await connect(server.sockets[0].getsockname()[1], 1)
    numbers = iter(range(3))

    def script() -> Script:
        for number in numbers:
            assert (yield [], b"%d\n" % number) == b"!"

    if says_so:
        await lane.start(script())
        assert await lane.ask(b"last\n") == b"!"
        assert asked == [b"0\n", b"1\n", b"2\n", b"last\n"]
    else:
        with pytest.raises(LoadError, match="hung up"):
            await lane.start(script())
    lane.close()
    server.close()


async def test_the_sink_counts_notifications_and_keeps_the_confirmation_token() -> None:
    sink = Sink()
    port = int((await sink.open()).rstrip("/").rpartition(":")[2])
    (lane,) = await connect(port, 1)
    for body in (b'{"Type":"SubscriptionConfirmation","Token" : "t0k"}', b"began=%d rest" % time.perf_counter_ns()):
        await lane.ask(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    await sink.await_count(1, 5)
    assert sink.token.result() == "t0k"
    assert 0 < sink.times_ns[0] < 5e9
    lane.close()
    sink.close()


async def test_the_floor_delivers_what_was_sent_and_counts_its_cpu(tmp_path: Path) -> None:
    with running("floor", FLOOR, tmp_path) as server:
        client = await open_client(server, 4, 1, "q")
        figures = [
            await workloads.send(client, 60),
            await workloads.receive_delete(client, 20),
            await workloads.send_batches(client, 60),
            await workloads.drain(client, 100),
            await workloads.send(client, 30),
            await workloads.cycles(client, 30),
        ]
        assert [each.units for each in figures] == [60, 20, 60, 100, 30, 90]
        received, handles = await workloads.receive(client, 30)
        deleted = await workloads.delete(client, handles)
        assert (received.units, len(set(handles)), deleted.units) == (30, 30, 30)
        handles = await workloads.fill_stock(client)
        paced = await workloads.paced(client, handles, 300.0, 0.5)
        assert [(each.workload, each.units) for each in paced] == [(name, 150) for name in workloads.OPERATIONS]
        await workloads.drain(client, 2 * workloads.STOCK - workloads.STOCK)
        with pytest.raises(LoadError, match="empty"):
            await workloads.receive_delete(client, 1)
        client.close()
        assert server.cpu_s() > 0
        assert len(server.processes()) == 1


async def test_the_floor_deletes_by_the_newest_delivery_only(tmp_path: Path) -> None:
    with running("floor", FLOOR, tmp_path) as server:
        client = await open_client(server, 1, 1, "q")
        await workloads.send(client, 1)
        receive = client.call("ReceiveMessage", VisibilityTimeout=0)
        old, _ = [handles_in(await client.lanes[0].ask(receive))[0] for _ in range(2)]
        await client.lanes[0].ask(client.delete(old))
        (newest,) = handles_in(await client.lanes[0].ask(receive))  # the old one had no effect
        await client.lanes[0].ask(client.delete(newest))
        assert not handles_in(await client.lanes[0].ask(receive))
        client.close()
