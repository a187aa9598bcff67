"""Calls for operators and the root of an account: accounts, and the debug views of queues."""

from __future__ import annotations

from cns.client.administration import (
    AdministrationRequests,
    Bucket,
    Pointers,
    RemovedItems,
    StoredMessage,
    StoredQueues,
)
from cns.client.async_calls.connection import AsyncConnection


class AsyncAdministrationCalls(AsyncConnection):
    async def delete_account(self) -> RemovedItems:
        """Delete a part of the account. Repeat it until it is `complete`."""
        return await self._send(AdministrationRequests(self.account).delete_account())

    async def stored_queues(self, after: str = "") -> StoredQueues:
        """The records of the account's queues, a page at a time."""
        return await self._send(AdministrationRequests(self.account).stored_queues(after))

    async def pointers(self, queue: str) -> Pointers:
        """The pointers of a queue in buckets. ApiError `EngineHasNoSuchView` for one of another engine."""
        return await self._send(AdministrationRequests(self.account).pointers(queue))

    async def monoton(self, queue: str) -> int:
        """The number that the next message gets."""
        found = await self._send(AdministrationRequests(self.account).monoton(queue))
        return found.next

    async def bucket(self, queue: str, number: int | None = None) -> Bucket:
        """The rows of a bucket; of the one that consumers read without a number."""
        return await self._send(AdministrationRequests(self.account).bucket(queue, number))

    async def stored_message(self, queue: str, pointer: int) -> StoredMessage:
        """A message's row by its number."""
        return await self._send(AdministrationRequests(self.account).message(queue, pointer))
