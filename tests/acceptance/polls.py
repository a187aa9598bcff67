"""A long poll in a thread beside the test."""

from __future__ import annotations

import threading
from typing import Any

from lab.harness.service import Service
from lab.harness.waiting import PATIENCE_S, wait_until


class Poll(threading.Thread):
    """`start` returns when the service has the call, `begin` at once. `bodies` waits for the answer."""

    def __init__(self, service: Service, queue: str) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._queue = queue
        self._answer: dict[str, Any] | None = None

    def start(self) -> None:
        calls = self._calls()
        self.begin()
        wait_until(lambda: self._calls() > calls)

    def begin(self) -> None:
        super().start()

    def run(self) -> None:
        self._answer = self._service.client("sqs").receive_message(QueueUrl=self._queue, WaitTimeSeconds=20)

    def bodies(self) -> list[str]:
        self.join(PATIENCE_S)
        assert not self.is_alive(), "the poll still waits"
        assert self._answer is not None, "the poll failed"
        return [message["Body"] for message in self._answer.get("Messages", [])]

    def _calls(self) -> float:
        return self._service.metric("cns_api_calls_total", operation="ReceiveMessage")
