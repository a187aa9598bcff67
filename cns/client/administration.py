"""Calls for operators and the root of an account: accounts, and the debug views of queues."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from cns.client.requests import ApiRequest, given


class StoredQueue(msgspec.Struct, frozen=True, rename="camel"):
    """A queue's record as it is stored: only what was set, without defaults."""

    id: str
    name: str
    account: str
    region: str
    engine: str
    created_at: int
    modified_at: int
    version: int
    purged_at: int | None
    attributes: dict[str, str]
    options: dict[str, str]
    tags: dict[str, str]


class StoredQueues(msgspec.Struct, frozen=True, rename="camel"):
    queues: list[StoredQueue]
    next: str | None = None


class Pointers(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of buckets."""

    reader: int
    repair: int
    invisibility: int
    bucket_size: int


class Monoton(msgspec.Struct, frozen=True, rename="camel"):
    next: int


class StoredMessage(msgspec.Struct, frozen=True, rename="camel"):
    pointer: int
    message_id: str
    tag: str
    version: int
    acknowledged: bool
    delivery_count: int
    visible_at: int
    sent_at: int
    first_received_at: int | None = None
    moved_to: int | None = None
    body: str | None = None


class Bucket(msgspec.Struct, frozen=True, rename="camel"):
    bucket: int
    sealed_at: int | None
    messages: list[StoredMessage]


class RemovedItems(msgspec.Struct, frozen=True, rename="camel"):
    """Counts of the items that one request deleted. `complete`: nothing is left, the account neither."""

    complete: bool
    users: int
    queues: int
    topics: int
    subscriptions: int
    applications: int


class AdministrationRequests:
    def __init__(self, account: str) -> None:
        self._account = account
        self._queues = f"/debug/accounts/{account}/queues"

    def _queue(self, queue: str, rest: str) -> str:
        return f"{self._queues}/{quote(queue, safe='')}{rest}"

    def delete_account(self) -> ApiRequest[RemovedItems]:
        return ApiRequest("DELETE", f"/accounts/{self._account}", RemovedItems)

    def stored_queues(self, after: str) -> ApiRequest[StoredQueues]:
        return ApiRequest("GET", self._queues, StoredQueues, given(after=after))

    def pointers(self, queue: str) -> ApiRequest[Pointers]:
        return ApiRequest("GET", self._queue(queue, "/pointers"), Pointers)

    def monoton(self, queue: str) -> ApiRequest[Monoton]:
        return ApiRequest("GET", self._queue(queue, "/monotons/current"), Monoton)

    def bucket(self, queue: str, number: int | None) -> ApiRequest[Bucket]:
        which = "current" if number is None else number
        return ApiRequest("GET", self._queue(queue, f"/buckets/{which}/messages"), Bucket)

    def message(self, queue: str, pointer: int) -> ApiRequest[StoredMessage]:
        return ApiRequest("GET", self._queue(queue, f"/messages/{pointer}"), StoredMessage)
