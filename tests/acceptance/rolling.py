"""Clients under load while processes are restarted one after the other: no call may fail, nothing may be lost."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lab.harness.service import Service
from lab.harness.waiting import wait_until

SDK_TRIES = 3
"""The default of the SDKs."""
SENDERS = 2
POLLERS = 4
SEND_PAUSE_S = 0.05
"""Between two sends of a sender: leaves the CPU to the processes that start."""
SAID_CHARS = 10_000


@dataclass
class Load:
    """Senders, and receivers that long-poll a queue and delete what they get, with the SDK's usual retries."""

    service: Service
    queue: str
    sent: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    failures: list[ClientError | BotoCoreError] = field(default_factory=list)
    _sending: threading.Event = field(default_factory=threading.Event)
    _receiving: threading.Event = field(default_factory=threading.Event)
    _senders: list[threading.Thread] = field(default_factory=list)
    _pollers: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Load:
        self._sending.set()
        self._receiving.set()
        self._senders = [threading.Thread(target=self._guard, args=(self._send, n)) for n in range(SENDERS)]
        self._pollers = [threading.Thread(target=self._guard, args=(self._poll, n)) for n in range(POLLERS)]
        for thread in (*self._pollers, *self._senders):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sending.clear()
        for thread in self._senders:
            thread.join()
        try:
            wait_until(
                lambda: self.failures or set(self.sent) <= set(self.deleted),
                lambda: f"lost: {sorted(set(self.sent) - set(self.deleted))[:10]}",
            )
        finally:
            self._receiving.clear()
            for thread in self._pollers:
                thread.join()
        self._check()

    def goes_on(self) -> None:
        """Wait until messages that are sent from now on have arrived."""
        goal = len(self.sent) + 20
        wait_until(lambda: self.failures or len(self.sent) >= goal, lambda: f"{len(self.sent)} sent")
        wait_until(lambda: self.failures or len(self.deleted) >= goal, lambda: f"{len(self.deleted)} came")
        self._check()

    def _check(self) -> None:
        assert not self.failures, (
            f"{[repr(one) for one in self.failures]}; it said:\n{self.service.said()[-SAID_CHARS:]}"
        )

    def _guard(self, work: Any, number: int) -> None:
        try:
            work(self.service.client("sqs", tries=SDK_TRIES), number)
        except (ClientError, BotoCoreError) as error:
            self.failures.append(error)

    def _send(self, sqs: Any, number: int) -> None:
        n = 0
        while self._sending.is_set():
            body = f"{number}-{n}"
            sqs.send_message(QueueUrl=self.queue, MessageBody=body)
            self.sent.append(body)
            n += 1
            self._sending_pause.wait(SEND_PAUSE_S)

    def _poll(self, sqs: Any, _number: int) -> None:
        while self._receiving.is_set():
            answer = sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10, WaitTimeSeconds=2)
            for message in answer.get("Messages", []):
                sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
                self.deleted.append(message["Body"])

    _sending_pause: threading.Event = field(default_factory=threading.Event)  # never set
