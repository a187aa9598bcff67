"""Calls for operators and the root of an account: accounts, and the debug views of queues."""

from __future__ import annotations

from urllib.parse import quote

from cns.client.requests import ApiRequest, given
from cns.rest.debug import Bucket, Monoton, Pointers, StoredMessage, StoredQueue, StoredQueues
from cns.rest.models import RemovedItems

__all__ = [
    "AdministrationRequests",
    "Bucket",
    "Monoton",
    "Pointers",
    "RemovedItems",
    "StoredMessage",
    "StoredQueue",
    "StoredQueues",
]


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
