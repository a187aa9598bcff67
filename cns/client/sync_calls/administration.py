# Generated from cns/client/async_calls by `make format`: change it there.
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
from cns.client.sync_calls.connection import Connection


class AdministrationCalls(Connection):
    def delete_account(self) -> RemovedItems:
        """Delete a part of the account. Repeat it until it is `complete`."""
        return self._send(AdministrationRequests(self.account).delete_account())

    def stored_queues(self, after: str = "") -> StoredQueues:
        """The records of the account's queues, a page at a time."""
        return self._send(AdministrationRequests(self.account).stored_queues(after))

    def pointers(self, queue: str) -> Pointers:
        """The pointers of a queue in buckets. ApiError `EngineHasNoSuchView` for one of another engine."""
        return self._send(AdministrationRequests(self.account).pointers(queue))

    def monoton(self, queue: str) -> int:
        """The number that the next message gets."""
        found = self._send(AdministrationRequests(self.account).monoton(queue))
        return found.next

    def bucket(self, queue: str, number: int | None = None) -> Bucket:
        """The rows of a bucket; of the one that consumers read without a number."""
        return self._send(AdministrationRequests(self.account).bucket(queue, number))

    def stored_message(self, queue: str, pointer: int) -> StoredMessage:
        """A message's row by its number."""
        return self._send(AdministrationRequests(self.account).message(queue, pointer))
