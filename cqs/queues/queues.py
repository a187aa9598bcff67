"""Creates, changes, purges and deletes queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from msgspec.structs import replace

from cns_common.clock import Clock
from cns_common.errors import RequestError, StoreUnavailable
from cns_common.ids import hex_id
from cqs import limits
from cqs.engines.contract import Counts, Engine, QueueRef
from cqs.queues.attributes import (
    ENGINE,
    check_changes,
    check_delay,
    check_new,
    first_difference,
    invalid_value,
    merge_changes,
    refused_value,
    wants_fifo,
)
from cqs.queues.cache import QueueCache
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey, check_queue_name
from cqs.queues.policies import read_policy, unknown_actions
from cqs.queues.tags import merge_tags
from cqs.queues.urls import key_of_arn, no_such_queue
from cqs.queues.view import QueueView
from cqs.redrive.policy import (
    check_redrive_target,
    may_redrive,
    read_redrive_allow_policy,
    read_redrive_policy,
    refused_redrive,
)
from cqs.stores.contract import QueueStore

UPDATE_TRIES_MAX = 20

log = structlog.get_logger(__name__)

QueueChange = Callable[[Queue], Queue]


class Queues:
    """The operations on whole queues."""

    def __init__(
        self,
        store: QueueStore,
        cache: QueueCache,
        engines: Mapping[str, Engine],
        clock: Clock,
        *,
        default_engine: str,
        recreate_wait_s: int = limits.RECREATE_WAIT_S,
        purge_wait_s: int = limits.PURGE_WAIT_S,
    ) -> None:
        self._store = store
        self._cache = cache
        self._engines = engines
        self._clock = clock
        self._default_engine = default_engine
        self._recreate_wait_s = recreate_wait_s
        self._purge_wait_s = purge_wait_s

    # -- creating -----------------------------------------------------------------------------------------------------

    async def create(
        self,
        account: str,
        region: str,
        name: str | None,
        given: Mapping[str, str],
        given_tags: Mapping[str, str],
    ) -> Queue:
        """Create the queue. If it exists, return it unless a given attribute differs: then raise RequestError."""
        fifo = wants_fifo(given)
        key = (account, region, check_queue_name(name, fifo=fifo))
        tags = merge_tags(key[2], {}, given_tags)
        existing = await self._store.get(key)
        if existing is None:
            await self._check_not_deleted_recently(key)
            attributes = check_new(given, fifo=fifo)
            engine = self._engine_for(given.get(ENGINE, self._default_engine), attributes, fifo=fifo)
            await self._check_redrive(key, given, fifo=fifo)
            queue = self._new(key, engine, merge_changes({}, attributes), tags)
            existing = await self._store.create(queue)
            if existing.id == queue.id:
                _warn_of_policy(queue.arn, given)
                return queue
        return _check_same(existing, given)

    def _new(self, key: QueueKey, engine: str, attributes: dict[str, str], tags: dict[str, str]) -> Queue:
        account, region, name = key
        now_ms = self._clock.now_ms()
        return Queue(
            id=hex_id(),
            account=account,
            region=region,
            name=name,
            engine=engine,
            created_ms=now_ms,
            modified_ms=now_ms,
            attributes=attributes,
            tags=tags,
        )

    def _engine_for(self, name: str, attributes: Mapping[str, str], *, fifo: bool) -> str:
        """`name`, if that engine runs and can do what the queue needs; else raise RequestError."""
        engine = self._engines.get(name)
        if engine is None:
            raise invalid_value(ENGINE)
        if fifo and not engine.capabilities.fifo:
            raise refused_value(ENGINE, f"The engine {name} has no FIFO queues.")
        check_delay(attributes, engine.capabilities)
        return name

    async def _check_not_deleted_recently(self, key: QueueKey) -> None:
        if not self._recreate_wait_s:
            return
        if self._clock.now_ms() - await self._store.deleted_at_ms(key) < self._recreate_wait_s * 1000:
            raise RequestError(
                "QueueDeletedRecently",
                f"You must wait {self._recreate_wait_s} seconds after deleting a queue before you can create another "
                "with the same name.",
            )

    # -- changing -----------------------------------------------------------------------------------------------------

    async def set_attributes(self, view: QueueView, given: Mapping[str, str]) -> None:
        changes = check_changes(given, fifo=view.fifo)
        check_delay(changes, view.engine.capabilities)
        await self._check_redrive(view.queue.key, given, fifo=view.fifo)
        now_ms = self._clock.now_ms()
        await self.update(
            view,
            lambda queue: replace(queue, attributes=merge_changes(queue.attributes, changes), modified_ms=now_ms),
        )
        _warn_of_policy(view.arn, given)
        # SQS: on a standard queue, the new delay applies to later messages only
        if view.fifo and "DelaySeconds" in changes:
            await view.engine.redelay(view.ref, int(changes["DelaySeconds"]) * 1000, now_ms)

    async def set_policy(self, view: QueueView, change: Callable[[str], str]) -> None:
        """Replace the policy by the result of `change` for its current text; '' is no policy."""
        now_ms = self._clock.now_ms()

        def changed(queue: Queue) -> Queue:
            policy = change(queue.attributes.get("Policy", ""))
            return replace(queue, attributes=merge_changes(queue.attributes, {"Policy": policy}), modified_ms=now_ms)

        await self.update(view, changed)

    async def update(self, view: QueueView, change: QueueChange) -> None:
        """Replace the queue's record by the result of `change` for the current one. `change` may raise RequestError."""
        await self._update(view.queue, change)

    async def _update(self, known: Queue, change: QueueChange) -> None:
        for _ in range(UPDATE_TRIES_MAX):
            current = await self._store.get(known.key)
            if current is None or current.id != known.id:
                raise no_such_queue()
            changed = replace(change(current), version=current.version + 1)
            if await self._store.replace(changed, current.version):
                return
        raise StoreUnavailable(f"too many changes of {known.arn} at once")

    async def _check_redrive(self, source: QueueKey, given: Mapping[str, str], *, fifo: bool) -> None:
        """Raise RequestError unless the dead-letter queue of the given RedrivePolicy exists and accepts messages of
        `source`."""
        text = given.get("RedrivePolicy")
        if not text:
            return
        account, region, name = source
        policy = read_redrive_policy(text)
        check_redrive_target(text, policy, account=account, region=region, fifo=fifo)
        target_key = key_of_arn(policy.deadLetterTargetArn)
        target = None if target_key is None else await self._store.get(target_key)
        if target is None:
            raise refused_redrive(text, "Dead letter target does not exist.")
        allow = target.attributes.get("RedriveAllowPolicy")
        if allow and not may_redrive(read_redrive_allow_policy(allow), replace(target, name=name).arn):
            raise refused_redrive(text, "The dead-letter queue's RedriveAllowPolicy does not allow this source queue.")

    # -- purging and deleting -----------------------------------------------------------------------------------------

    async def purge(self, view: QueueView) -> None:
        now_ms = self._clock.now_ms()

        def mark(queue: Queue) -> Queue:
            if now_ms - queue.purged_ms < self._purge_wait_s * 1000:
                raise RequestError(
                    "PurgeQueueInProgress",
                    f"Only one PurgeQueue operation on {queue.name} is allowed every {self._purge_wait_s} seconds.",
                )
            return replace(queue, purged_ms=now_ms)

        await self.update(view, mark)
        await view.engine.purge(view.ref, now_ms)

    async def delete(self, view: QueueView) -> None:
        if not await self._store.delete(view.queue, self._clock.now_ms()):
            raise no_such_queue()
        await self._drop(view.queue)

    async def drop_deleted(self) -> None:
        """Drop the queues that were deleted but, after a crash, not dropped from their engines."""
        for queue in await self._store.undropped():
            if queue.engine in self._engines:  # the others wait until their engine runs again
                await self._drop(queue)

    async def _drop(self, queue: Queue) -> None:
        await self._cache.engine(queue).drop(QueueRef(queue.id, queue.fifo, 0), self._clock.now_ms())
        await self._store.forget_dropped(queue.id)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def counts(self, view: QueueView) -> Counts:
        return await view.engine.counts(view.ref, self._clock.now_ms())

    async def list_names(self, account: str, region: str, prefix: str, after: str, n: int) -> list[str]:
        return await self._store.list_names(account, region, prefix, after, n)

    async def dead_letter_sources(self, view: QueueView, after: str, n: int) -> list[str]:
        return await self._store.dead_letter_sources(view.arn, after, n)


def _warn_of_policy(queue_arn: str, given: Mapping[str, str]) -> None:
    policy = given.get("Policy")
    unknown = unknown_actions(read_policy(policy)) if policy else []
    if unknown:
        log.warning("queue_policy.unknown_actions_accepted", queue=queue_arn, actions=unknown)


def _check_same(existing: Queue, given: Mapping[str, str]) -> Queue:
    """`existing`, if it matches the attributes given to CreateQueue; else raise RequestError."""
    wanted = check_new(given, fifo=existing.fifo)
    difference = first_difference(existing, wanted)
    if difference is None and given.get(ENGINE, existing.engine) != existing.engine:
        difference = ENGINE
    if difference is not None:
        raise RequestError(
            "QueueNameExists",
            f"A queue already exists with the same name and a different value for attribute {difference}",
        )
    return existing
