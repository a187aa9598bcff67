"""Subjects of NATS as endpoints: our addition to the protocols of Subscribe."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from io import BufferedReader
from queue import SimpleQueue

import pytest
from botocore.exceptions import ClientError

from lab.harness.service import Service
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.topics import Topic, signature_is_good


class NatsServer:
    """Takes one message from each connection, or refuses it."""

    def __init__(self) -> None:
        self.refusing = False
        self.published: SimpleQueue[tuple[str, str]] = SimpleQueue()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_S)
        self._listener.close()

    def next(self) -> tuple[str, str]:
        """Subject and body of a message."""
        return self.published.get(timeout=PATIENCE_S)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with connection, connection.makefile("rb") as lines:
                self._take(connection, lines)

    def _take(self, connection: socket.socket, lines: BufferedReader) -> None:
        connection.sendall(b'INFO {"server_id":"x"}\r\n')
        assert lines.readline().startswith(b"CONNECT {")
        command, subject, size = lines.readline().split()
        body = lines.read(int(size))
        assert (command, lines.readline(), lines.readline()) == (b"PUB", b"\r\n", b"PING\r\n")
        if self.refusing:
            connection.sendall(b"-ERR 'Permissions Violation'\r\n")
            return
        self.published.put((subject.decode(), body.decode()))
        connection.sendall(b"PONG\r\n")


@pytest.fixture
def server() -> Iterator[NatsServer]:
    server = NatsServer()
    yield server
    server.close()


def test_what_is_published_reaches_the_subject(topic: Topic, server: NatsServer) -> None:
    """A subject gets the envelope that an HTTP endpoint would get, without a confirmation."""
    subscription = topic.request_subscription("nats", f"nats://127.0.0.1:{server.port}/orders.new")
    assert subscription.startswith(topic.arn)
    published = topic.publish("hello")
    subject, body = server.next()
    envelope = json.loads(body)
    assert (subject, envelope["MessageId"], envelope["Message"]) == ("orders.new", published, "hello")
    assert signature_is_good(envelope)


def test_what_nats_refuses_is_tried_again(service: Service, topic: Topic, server: NatsServer) -> None:
    server.refusing = True
    subscription = topic.subscribe("nats", f"nats://127.0.0.1:{server.port}/orders", RawMessageDelivery="true")
    topic.publish("late")
    wait_until(lambda: service.events("delivery_attempt.failed", subscription=subscription, cause="status"))
    server.refusing = False
    service.advance(23)
    assert server.next() == ("orders", "late")


@pytest.mark.parametrize("endpoint", ["nats://h", "nats://h/a b", "nats://h/a..b", "nats://u:p@h/a", "http://h/a"])
def test_subjects_refused(topic: Topic, endpoint: str) -> None:
    with pytest.raises(ClientError, match="must be nats://host:port/subject"):
        topic.request_subscription("nats", endpoint)
