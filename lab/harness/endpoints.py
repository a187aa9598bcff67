"""An HTTP endpoint of the fault receiver (`cns receiver`): a test sets its behaviour and reads what arrived."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cns_pytest.http import fetch, is_up
from lab.harness.ports import free_port
from lab.harness.processes import BIN, HOST, Process, plain_environment
from lab.harness.waiting import wait_until

WAIT_S = 60.0
"""The receiver answers by then: one of several looks."""
BODY_BYTES_KEPT = 300 * 1024


@dataclass(frozen=True)
class Endpoint:
    receiver: str
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def url(self) -> str:
        return f"{self.receiver}/endpoint/{self.name}"

    def behave(self, **behaviour: object) -> None:
        """Set how notifications are answered; see `cns receiver`."""
        self._put("behaviour", behaviour)

    def confirm(self, how: str) -> None:
        self._put("settings", {"confirm": how})

    def wait(self, **counts: int) -> dict[str, Any]:
        """Wait until the counters reach these numbers, and return them. Fails if one is beyond its number."""
        found: dict[str, Any] = {}

        def reached() -> bool:
            summary = self.look(wait_s=WAIT_S, **counts)
            found.update(summary | summary["signature"])
            return all(found[name] >= count for name, count in counts.items())

        wait_until(reached, lambda: str(found))
        assert {name: found[name] for name in counts} == counts, found
        return found

    def notifications(self) -> list[dict[str, Any]]:
        """All attempts to deliver notifications, in the order of arrival."""
        return [record for record in self.look()["messages"] if record["type"] == "Notification"]

    def look(self, **query: float) -> dict[str, Any]:
        status, body = fetch(f"{self.url}?{urlencode({'n': 1000, **query})}")
        assert status == 200, body
        summary: dict[str, Any] = json.loads(body)
        return summary

    def _put(self, what: str, value: object) -> None:
        status, body = fetch(f"{self.url}/{what}", json.dumps(value).encode(), method="PUT")
        assert status == 204, body


@contextmanager
def running_receiver(*options: str, host: str = HOST) -> Iterator[str]:
    """Run `cns receiver` within the block. Yields its URL."""
    port = free_port()
    url = f"http://{host}:{port}"
    words = ["receiver", "--host", host, "--port", str(port), "--body-bytes", str(BODY_BYTES_KEPT), *options]
    process = Process([BIN / "cns", *words], Path(os.devnull), plain_environment())
    process.start()
    try:
        process.wait_until(lambda: is_up(f"{url}/health"))
        yield url
    finally:
        process.stop()
