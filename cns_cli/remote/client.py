"""The client of the commands: that of programs, and the calls about redrives and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import quote

import msgspec

from cns.client import Client, Credentials
from cns.client.requests import ApiRequest
from cns.client.values import Subscription, SubscriptionArn, Subscriptions

T = TypeVar("T")


class Redrive(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    source_arn: str
    moved: int
    destination_arn: str | None = None
    handle: str | None = None
    to_move: int | None = None
    started_at: int | None = None
    failure: str | None = None


class Redrives(msgspec.Struct, frozen=True):
    redrives: list[Redrive]


class SubscriptionAttributes(msgspec.Struct, frozen=True):
    attributes: dict[str, str]


class CommandClient(Client):
    def __init__(self, url: str, account: str, credentials: Credentials, *, region: str = "") -> None:
        super().__init__(url, account, credentials, region=region)
        self._path = f"/accounts/{account}"

    def start_redrive(self, queue: str, to: str, rate: int | None) -> Redrive:
        """Move the messages of a dead-letter queue back, or to the queue with the ARN `to`."""
        body = {"destinationArn": to or None, "messagesPerSecond": rate}
        return self._call("POST", self._redrives(queue), Redrive, body={k: v for k, v in body.items() if v is not None})

    def list_redrives(self, queue: str) -> list[Redrive]:
        """The newest first."""
        return self._call("GET", self._redrives(queue), Redrives).redrives

    def subscriptions(self) -> Iterator[Subscription]:
        """Those of all topics of the account."""
        after = ""
        while True:
            params = {"after": after} if after else None
            page = self._call("GET", f"{self._path}/subscriptions", Subscriptions, params=params)
            yield from page.subscriptions
            if not page.next:
                return
            after = page.next

    def confirm_subscription(self, topic: str, token: str) -> str:
        """Returns the ARN."""
        path = f"{self._path}/topics/{quote(topic, safe='')}/confirmations"
        return self._call("POST", path, SubscriptionArn, body={"token": token}).arn

    def show_subscription(self, topic: str, subscription: str) -> dict[str, str]:
        return self._call("GET", self._subscription(topic, subscription), SubscriptionAttributes).attributes

    def delete_subscription(self, topic: str, subscription: str) -> None:
        request = ApiRequest("DELETE", self._subscription(topic, subscription), type(None))
        request.read_optional(self._http.request(request.method, request.path))

    def _redrives(self, queue: str) -> str:
        return f"{self._path}/queues/{quote(queue, safe='')}/redrives"

    def _subscription(self, topic: str, subscription: str) -> str:
        return f"{self._path}/topics/{quote(topic, safe='')}/subscriptions/{quote(subscription, safe='')}"

    def _call(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        params: dict[str, str] | None = None,
        body: dict[str, object] | None = None,
    ) -> T:
        response = self._http.request(method, path, params=params, json=body)
        return ApiRequest(method, path, answer).read(response)
