"""A worker that is killed between an endpoint's answer and the deletion of its job: the duplicate is in the events."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from cns_common.events.schema import DeliveryDelivered
from cns_pytest.http import fetch
from lab.harness.running import Up, running
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.topics import Topic

STEP_S = 5.0


class _Origin(msgspec.Struct):
    boot: str
    event: str
    message_id: str = ""


class HeldEndpoint(ThreadingHTTPServer):
    """Confirms its subscription. It answers notifications when `answers` is set."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.arrivals = 0
        self.answers = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: HeldEndpoint

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if message["Type"] == "SubscriptionConfirmation":
            fetch(message["SubscribeURL"])
        else:
            self.server.arrivals += 1
            self.server.answers.wait(PATIENCE_S)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def held_endpoint() -> Iterator[HeldEndpoint]:
    endpoint = HeldEndpoint()
    thread = threading.Thread(target=endpoint.serve_forever)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.answers.set()
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()


def test_a_duplicate_has_two_delivered_events_of_two_boots(tmp_path: Path) -> None:
    """The process that has the store stops before the answer and never runs again, so the worker reports the delivery
    and cannot delete its job."""
    data = tmp_path / "data"
    with held_endpoint() as endpoint, running(data, "--test-clock") as service:
        sns = service.client("sns")
        topic = Topic(sns, str(sns.create_topic(Name="t")["TopicArn"]))
        subscription = topic.subscribe("http", endpoint.url)
        pids = service.pids()
        message_id = topic.publish("twice")
        wait_until(lambda: endpoint.arrivals == 1)
        os.kill(pids["api"], signal.SIGSTOP)
        endpoint.answers.set()
        wait_until(lambda: len(delivered(data, message_id)) == 1)
        for name in ("worker", "api"):
            os.kill(pids[name], signal.SIGKILL)
        wait_until(lambda: came_again(service, endpoint))
        wait_until(lambda: len(delivered(data, message_id)) == 2)
    found = delivered(data, message_id)
    assert len({boot for boot, _ in found}) == 2
    assert {(event.subscription, event.attempt, event.replayed) for _, event in found} == {(subscription, 1, False)}
    assert endpoint.arrivals == 2


def came_again(service: Up, endpoint: HeldEndpoint) -> bool:
    """Advance the clock towards the end of the job's lease, once the new processes run."""
    with suppress(OSError):  # the API process is not there yet
        if service.is_ready():
            service.advance(STEP_S)
    return endpoint.arrivals == 2


def delivered(data: Path, message_id: str) -> list[tuple[str, DeliveryDelivered]]:
    """The events of the message with their boots, of all segments, open ones too."""
    texts = [path.read_bytes() for path in (data / "events").glob("*/*/*.jsonl*")]
    lines = [line for text in texts for line in text[: text.rfind(b"\n") + 1].splitlines()]
    found = []
    for line in lines:
        if message_id.encode() in line and b'"delivery.delivered"' in line:
            found.append(
                (msgspec.json.decode(line, type=_Origin).boot, msgspec.json.decode(line, type=DeliveryDelivered))
            )
    return found
