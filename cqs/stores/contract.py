"""The contracts of the stores of queue records, message move tasks, and the key of receipt handles.

Msgspec can encode all arguments and results, because a store may be in another process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cns_common.store_keys import Key, KeyOrEmpty
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey
from cqs.redrive.task import MoveTask


class QueueStore(Protocol):
    """Changes are durable on return."""

    changed: list[Callable[[QueueKey], None]]
    """Called with the key of each queue that was created, replaced or deleted, by any process."""

    async def create(self, queue: Queue) -> Queue:
        """Store the queue unless its key exists. Returns the stored one."""
        ...

    async def get(self, key: QueueKey) -> Queue | None: ...

    async def replace(self, queue: Queue, expected_version: int) -> bool:
        """Returns False and changes nothing if the record's version is another one, or the record is gone."""
        ...

    async def delete(self, queue: Queue, now_ms: int) -> bool:
        """Returns False if no queue with this id exists. Else the queue is in `undropped` until `forget_dropped`."""
        ...

    async def list_names(self, account: Key, region: Key, prefix: KeyOrEmpty, after: KeyOrEmpty, n: int) -> list[str]:
        """Up to `n` sorted names with this prefix, after the name `after`."""
        ...

    async def regions(self, account: Key) -> list[str]:
        """The regions in which the account has queues, sorted. May scan the store: for rare acts only."""
        ...

    async def dead_letter_sources(self, target_arn: Key, after: KeyOrEmpty, n: int) -> list[str]:
        """Names of queues whose redrive policy has `target_arn`, sorted. They are of its account and region."""
        ...

    async def deleted_at_ms(self, key: QueueKey) -> int:
        """When the last queue of this key was deleted; 0 if none was deleted, or too long ago to be remembered."""
        ...

    async def undropped(self) -> list[Queue]:
        """Deleted queues whose messages may still be in their engine."""
        ...

    async def forget_dropped(self, queue_id: Key) -> None:
        """Remove the queue from `undropped`: its engine has dropped it."""
        ...


class MoveTaskStore(Protocol):
    """Message move tasks: the active ones and the last few of each source queue. Changes are durable on return."""

    async def create(self, task: MoveTask) -> bool:
        """Returns False and changes nothing if the source has another active task."""
        ...

    async def get(self, source_arn: Key, task_id: Key) -> MoveTask | None: ...

    async def replace(self, task: MoveTask, expected_version: int) -> bool:
        """Returns False and changes nothing if the record's version is another one, or the record is gone."""
        ...

    async def newest(self, source_arn: Key, n: int) -> list[MoveTask]:
        """Up to `n` tasks of the source, the last started first."""
        ...

    async def active(self) -> list[MoveTask]:
        """The active tasks of all accounts."""
        ...


class ReceiptKeyStore(Protocol):
    async def receipt_key(self) -> bytes:
        """`KEY_BYTES` (`cqs.messages.receipt_handle`) of key, the same in every process and after a restart."""
        ...
