"""The service as a test sees it: address, keys, clients, the test clock, and what was delivered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cns_pytest.deliveries import Delivery, difference, ended, read_deliveries
from cns_pytest.http import fetch, is_local, wait_until
from cns_pytest.processes import Process

WAIT_S = 30.0
HIDING_VARIABLES = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_SNS",
    "AWS_ENDPOINT_URL_STS",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
"""A developer's own, with which SDKs would not find the service, or would sign with another's token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """`data` and `process` are None of a service that was not started here, such as a container."""

    url: str
    key_id: str
    secret: str = field(repr=False)
    region: str
    data: Path | None = None
    process: Process | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which AWS SDKs and the CLI find the service."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    @property
    def client_options(self) -> dict[str, str]:
        """Keyword arguments of `boto3.client`, `boto3.resource` and aioboto3's."""
        return {
            "endpoint_url": self.url,
            "region_name": self.region,
            "aws_access_key_id": self.key_id,
            "aws_secret_access_key": self.secret,
        }

    def client(self, name: str, **options: Any) -> Any:
        """A client of `sqs`, `sns` or `sts`, as boto3 makes it. It uses no profile, and no proxy on this machine."""
        from botocore.config import Config
        from botocore.session import Session

        session = Session({"profile": (None, None, None, None)})
        config = Config(proxies={}) if is_local(self.url) else None
        return session.create_client(name, **{**self.client_options, "config": config, **options})

    def advance(self, seconds: float) -> None:
        """Advance the service's clock: delays, visibility timeouts and retries end earlier."""
        self._post("clock", json.dumps({"advance_s": seconds}).encode())

    def reset(self) -> None:
        """Empty the service: no account has queues, topics or subscriptions any more, nothing is to be delivered, and
        names of deleted queues are free. Accounts and keys stay; the clock goes on."""
        self._post("reset", b"")

    def deliveries(self, message_id: str) -> list[Delivery]:
        """The attempts to deliver the message and what became of it, as far as they are written: within 0.25 s."""
        return read_deliveries(self._events(), message_id)

    def wait_ended(self, message_id: str, subscriptions: int, timeout_s: float = WAIT_S) -> list[Delivery]:
        """Wait until no attempt follows for this many subscriptions."""
        events = self._events()
        if not wait_until(lambda: len(ended(read_deliveries(events, message_id))) >= subscriptions, timeout_s):
            found = "\n".join(map(str, self.deliveries(message_id)))
            raise AssertionError(f"not ended for {subscriptions} subscriptions within {timeout_s} s:\n{found}")
        return self.deliveries(message_id)

    def assert_delivered(self, message_id: str, subscriptions: Sequence[str], timeout_s: float = WAIT_S) -> None:
        """Assert that the message is delivered to these subscriptions, waiting for them, and to no other one so far."""
        events = self._events()
        wait_until(lambda: ended(read_deliveries(events, message_id)).keys() >= set(subscriptions), timeout_s)
        wrong = difference(self.deliveries(message_id), subscriptions)
        if wrong:
            raise AssertionError(wrong)

    def _post(self, act: str, body: bytes) -> None:
        status, answer = fetch(f"{self.url}/_cns/{act}", body, {"content-type": "application/json"}, method="POST")
        if status == 404:
            raise RuntimeError("this service has no test clock: start it with --test-clock")
        if status != 200:
            raise RuntimeError(f"/_cns/{act} failed: {answer.decode(errors='replace')}")

    def _events(self) -> Path:
        if self.data is None:
            raise RuntimeError("events can be read of a service that the plugin started only")
        return self.data / "events"
