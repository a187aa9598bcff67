"""The views of queues in use, cached until the store reports a change."""

from __future__ import annotations

from collections.abc import Mapping

from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.errors import StoreUnavailable
from cqs.engines.contract import Engine
from cqs.internal_queues import internal_queue
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey
from cqs.queues.view import QueueView, view_of
from cqs.stores.contract import QueueStore

VIEWS_MAX = 10_000
"""Each takes 2 KiB, with a policy of one statement."""


class QueueCache:
    """`internal_engine` has the internal queues. `receipt_key` is the key of receipt handles."""

    def __init__(
        self, store: QueueStore, engines: Mapping[str, Engine], internal_engine: str, receipt_key: bytes
    ) -> None:
        self._store = store
        self._engines = engines
        self._internal_engine = internal_engine
        self._receipt_key = receipt_key
        self._views: dict[QueueKey, QueueView] = {}
        self._changes = 0
        store.changed.append(self._forget)
        self.changed = store.changed
        """Called with the key of each queue that was created, replaced or deleted, as far as it is announced."""

    def cached(self, key: QueueKey) -> QueueView | None:
        return self._views.get(key)

    async def find(self, key: QueueKey) -> QueueView | None:
        view = self._views.get(key)
        return await self.read(key) if view is None else view

    async def read(self, key: QueueKey) -> QueueView | None:
        """The queue as the store has it now."""
        changes = self._changes
        queue = await self._queue(key)
        if queue is None:
            return None
        view = view_of(queue, self.engine(queue), self._receipt_key)
        if changes == self._changes:  # else the record may be older than a change reported meanwhile
            self._keep(key, view)
        return view

    async def _queue(self, key: QueueKey) -> Queue | None:
        if key[0] == INTERNAL_ACCOUNT:
            return internal_queue(key, self._internal_engine)
        return await self._store.get(key)

    def engine(self, queue: Queue) -> Engine:
        engine = self._engines.get(queue.engine)
        if engine is None:
            raise StoreUnavailable(f"queue {queue.arn} is kept by the engine {queue.engine}, which is not running")
        return engine

    def clear(self) -> None:
        """Forget all views: changes may have been missed, for example while the link to the store was broken."""
        self._changes += 1
        self._views.clear()

    def _keep(self, key: QueueKey, view: QueueView) -> None:
        if len(self._views) >= VIEWS_MAX:
            del self._views[next(iter(self._views))]
        self._views[key] = view

    def _forget(self, key: QueueKey) -> None:
        self._changes += 1
        self._views.pop(key, None)
