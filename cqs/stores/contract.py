"""What the stores promise: the records of all queues, found by account, region and name, and of message move tasks.

Arguments and results are what msgspec encodes, since a driver on the far side of a socket keeps the same contract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cqs.queues.model import Queue
from cqs.queues.names import QueueKey
from cqs.redrive.task import MoveTask


class QueueStore(Protocol):
    """Every change is durable when its method returns."""

    changed: list[Callable[[QueueKey], None]]
    """Called for a queue that was created, replaced or deleted, by whomever: forget what you know of it."""

    async def create(self, queue: Queue) -> Queue:
        """The queue that has this key from now on: the given one, or one that was there before."""
        ...

    async def get(self, key: QueueKey) -> Queue | None: ...

    async def replace(self, queue: Queue, expected_version: int) -> bool:
        """False, and nothing is done, when the record is not of that version or is gone."""
        ...

    async def delete(self, queue: Queue, now_ms: int) -> bool:
        """False when this queue (by its id) is not there; else it waits in `undropped` for its engine."""
        ...

    async def list_names(self, account: str, region: str, prefix: str, after: str, n: int) -> list[str]:
        """Up to `n` names in their order, after the given one."""
        ...

    async def dead_letter_sources(self, target_arn: str, after: str, n: int) -> list[str]:
        """Names of queues whose redrive policy leads to `target_arn` (they are of its account and region)."""
        ...

    async def deleted_at_ms(self, key: QueueKey) -> int:
        """When the last queue of this key was deleted; 0 when none was, or long ago."""
        ...

    async def undropped(self) -> list[Queue]:
        """Deleted queues whose messages the engine may still hold."""
        ...

    async def forget_dropped(self, queue_id: str) -> None:
        """The engine has dropped this queue."""
        ...


class MoveTaskStore(Protocol):
    """Message move tasks: those under way, and the last few of each source queue. Changes are durable on return."""

    async def create(self, task: MoveTask) -> bool:
        """False, and nothing is done, while another task of the same source is active."""
        ...

    async def get(self, source_arn: str, task_id: str) -> MoveTask | None: ...

    async def replace(self, task: MoveTask, expected_version: int) -> bool:
        """False, and nothing is done, when the record is not of that version or is gone."""
        ...

    async def newest(self, source_arn: str, n: int) -> list[MoveTask]:
        """Those started last first."""
        ...

    async def active(self) -> list[MoveTask]:
        """All that are under way, of all accounts."""
        ...


class ReceiptKeyStore(Protocol):
    async def receipt_key(self) -> bytes:
        """`KEY_BYTES` (`cqs.messages.receipt_handle`) of key, the same in every process and after a restart."""
        ...
