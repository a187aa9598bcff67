"""Calls for operators and the root of an account: accounts, and the debug views of queues."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from cns.client.connection import AsyncConnection, Connection
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


def _queues(account: str) -> str:
    return f"/debug/accounts/{account}/queues"


def _queue(account: str, queue: str, rest: str) -> str:
    return f"{_queues(account)}/{quote(queue, safe='')}{rest}"


def _delete_account(account: str) -> ApiRequest[RemovedItems]:
    return ApiRequest("DELETE", f"/accounts/{account}", RemovedItems)


def _stored_queues(account: str, after: str) -> ApiRequest[StoredQueues]:
    return ApiRequest("GET", _queues(account), StoredQueues, given(after=after))


def _pointers(account: str, queue: str) -> ApiRequest[Pointers]:
    return ApiRequest("GET", _queue(account, queue, "/pointers"), Pointers)


def _monoton(account: str, queue: str) -> ApiRequest[Monoton]:
    return ApiRequest("GET", _queue(account, queue, "/monotons/current"), Monoton)


def _bucket(account: str, queue: str, number: int | None) -> ApiRequest[Bucket]:
    which = "current" if number is None else number
    return ApiRequest("GET", _queue(account, queue, f"/buckets/{which}/messages"), Bucket)


def _message(account: str, queue: str, pointer: int) -> ApiRequest[StoredMessage]:
    return ApiRequest("GET", _queue(account, queue, f"/messages/{pointer}"), StoredMessage)


class AdministrationCalls(Connection):
    def delete_account(self) -> RemovedItems:
        """Delete a part of the account. Repeat it until it is `complete`."""
        return self._send(_delete_account(self.account))

    def stored_queues(self, after: str = "") -> StoredQueues:
        """The records of the account's queues, a page at a time."""
        return self._send(_stored_queues(self.account, after))

    def pointers(self, queue: str) -> Pointers:
        """The pointers of a queue in buckets. ApiError `EngineHasNoSuchView` for one of another engine."""
        return self._send(_pointers(self.account, queue))

    def monoton(self, queue: str) -> int:
        """The number that the next message gets."""
        return self._send(_monoton(self.account, queue)).next

    def bucket(self, queue: str, number: int | None = None) -> Bucket:
        """The rows of a bucket; of the one that consumers read without a number."""
        return self._send(_bucket(self.account, queue, number))

    def stored_message(self, queue: str, pointer: int) -> StoredMessage:
        """A message's row by its number."""
        return self._send(_message(self.account, queue, pointer))


class AsyncAdministrationCalls(AsyncConnection):
    async def delete_account(self) -> RemovedItems:
        """Delete a part of the account. Repeat it until it is `complete`."""
        return await self._send(_delete_account(self.account))

    async def stored_queues(self, after: str = "") -> StoredQueues:
        """The records of the account's queues, a page at a time."""
        return await self._send(_stored_queues(self.account, after))

    async def pointers(self, queue: str) -> Pointers:
        """The pointers of a queue in buckets. ApiError `EngineHasNoSuchView` for one of another engine."""
        return await self._send(_pointers(self.account, queue))

    async def monoton(self, queue: str) -> int:
        """The number that the next message gets."""
        return (await self._send(_monoton(self.account, queue))).next

    async def bucket(self, queue: str, number: int | None = None) -> Bucket:
        """The rows of a bucket; of the one that consumers read without a number."""
        return await self._send(_bucket(self.account, queue, number))

    async def stored_message(self, queue: str, pointer: int) -> StoredMessage:
        """A message's row by its number."""
        return await self._send(_message(self.account, queue, pointer))
