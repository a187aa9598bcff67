"""The bench's own tools: a wrong signer, percentile or parser would give figures that look right."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from tests.load import queues
from tests.load.figures import percentile
from tests.load.processes import python, running
from tests.load.signing import Credentials, Signer
from tests.load.sink import Sink
from tests.load.wire import Budget, Lane, LoadError, connect


class Wire(asyncio.WriteTransport):
    """Takes everything and keeps nothing."""

    def write(self, data: object) -> None: ...
    def abort(self) -> None: ...


BUSY = """
import threading, time
def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))
def elsewhere():
    spin(0.3)
thread = threading.Thread(target=elsewhere)
thread.start()
spin(0.6)
thread.join()
"""


@pytest.mark.parametrize(
    ("operation", "body"),
    [("SendMessage", b'{"QueueUrl":"q","MessageBody":"x"}'), ("", b"Action=Publish&Message=caf%C3%A9")],
    ids=["json", "form"],
)
def test_signs_as_botocore_does(operation: str, body: bytes) -> None:
    credentials = Credentials(key_id="AKIDEXAMPLE", secret="secret", region="eu-west-3")
    signer = Signer(credentials, "sqs", "127.0.0.1:6059")
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


def test_a_budget_ends_by_units_and_by_time() -> None:
    assert [Budget(3, 60).take(2), Budget(1, 60).take(2), Budget(3, 0).take()] == [True, False, False]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"],
        [b"HTTP/1.1 200 OK\r\ncontent-le", b"ngth: 4\r\n\r", b"\nbo", b"dy"],
    ],
    ids=["whole", "in pieces"],
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
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "no Content-Length"),
        (None, "hung up"),
    ],
)
async def test_what_is_not_an_answer_fails_the_run(answer: bytes | None, reason: str) -> None:
    lane = Lane()
    lane.connection_made(Wire())
    asked = asyncio.ensure_future(lane.ask(b"?"))
    await asyncio.sleep(0)
    lane.data_received(answer) if answer else lane.connection_lost(None)
    with pytest.raises(LoadError, match=reason):
        await asked


async def test_the_sink_counts_notifications_and_keeps_the_confirmation_token() -> None:
    sink = Sink()
    port = int((await sink.open()).rstrip("/").rpartition(":")[2])
    (lane,) = await connect(port, 1)
    for body in (b'{"Type":"SubscriptionConfirmation","Token" : "t0k"}', b"began=%d rest" % time.perf_counter_ns()):
        await lane.ask(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    await sink.have(1, 5)
    assert sink.token.result() == "t0k"
    assert 0 < sink.times_ns[0] < 5e9
    lane.close()
    await sink.close()


@pytest.mark.parametrize("command", [("server",), ("split", "--apis", "2")], ids=["one process", "store apart"])
async def test_the_floor_gives_back_what_it_took_and_counts_its_cpu(command: tuple[str, ...], tmp_path: Path) -> None:
    module, *arguments = command
    with running("floor", python(f"tests.load.floor.{module}", *arguments), tmp_path) as server:
        client = await queues.open_client(server, 4, 1, "q")
        figures = [
            await queues.send(client, 60),
            await queues.receive_delete(client, 20),
            await queues.send_batches(client, 60),
            await queues.drain(client, 100),
        ]
        assert [each.units for each in figures] == [60, 20, 60, 100]
        with pytest.raises(LoadError, match="empty"):
            await queues.receive_delete(client, 1)
        client.close()
        assert server.cpu_s() > 0
        assert len(server.processes()) == {"server": 1, "split": 4}[module]


async def test_the_floor_deletes_by_the_newest_delivery_only(tmp_path: Path) -> None:
    with running("floor", python("tests.load.floor.server"), tmp_path) as server:
        client = await queues.open_client(server, 1, 1, "q")
        await queues.send(client, 1)
        receive = client.call("ReceiveMessage", VisibilityTimeout=0)
        old, _ = [queues.handles_in(await client.lanes[0].ask(receive))[0] for _ in range(2)]
        await client.lanes[0].ask(queues.delete_request(client, old))
        (newest,) = queues.handles_in(await client.lanes[0].ask(receive))  # the old one had no effect
        await client.lanes[0].ask(queues.delete_request(client, newest))
        assert not queues.handles_in(await client.lanes[0].ask(receive))
        client.close()


def test_the_sampler_finds_the_busy_functions_of_all_threads_in_a_child_process_too(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    (tmp_path / "parent.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'busy'], preexec_fn=lambda: None, check=True)\n"
    )
    command = [sys.executable, "-m", "tests.load.sampler", str(tmp_path / "out"), "--", "parent"]
    root = Path(__file__).parents[2]
    subprocess.run(command, cwd=root, env={"PYTHONPATH": f"{root}:{tmp_path}"}, check=True, timeout=30)
    texts = [file.read_text() for file in (tmp_path / "out").iterdir()]
    (busy,) = (text for text in texts if text.startswith("-m busy"))
    shares = {words[2]: words for words in map(str.split, busy.splitlines()) if "/busy.py:" in str(words)}
    assert float(shares["spin"][0].rstrip("%")) > 60
    assert 15 < float(shares["elsewhere"][1].rstrip("%")) < 50
