"""Creates, changes, purges and deletes queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from cns_common.clock import Clock
from cns_common.errors import RequestError, StoreUnavailable
from cns_common.ids import hex_id
from cqs.engines.contract import Counts, Engine, QueueRef
from cqs.limits import PURGE_WAIT_S, RECREATE_WAIT_S
from cqs.messages.queue_audit import QueueAudit
from cqs.queues.attributes import (
    AUDIT,
    ENGINE,
    check_changes,
    check_new,
    first_difference,
    merge_changes,
    wants_fifo,
)
from cqs.queues.cache import QueueCache
from cqs.queues.engine_choice import (
    check_capabilities,
    check_delay,
    check_option_changes,
    check_required,
    engine_named,
    first_different_option,
    options_of_new,
    without_engine,
)
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey, check_queue_name, is_fifo
from cqs.queues.policies import read_policy, unknown_actions
from cqs.queues.tags import merge_tags
from cqs.queues.urls import key_of_arn, no_such_queue
from cqs.queues.view import QueueView
from cqs.redrive.policy import (
    check_redrive_sources,
    check_redrive_target,
    may_redrive,
    read_redrive_allow_policy,
    read_redrive_policy,
    refused_redrive,
)
from cqs.stores.contract import QueueStore

UPDATE_TRIES_MAX = 20
_OF_MAINTENANCE = frozenset({"MessageRetentionPeriod", AUDIT})
"""The attributes that an engine's maintenance goes by."""

log = structlog.get_logger(__name__)

QueueChange = Callable[[Queue], Queue]


class QueueWaits(NamedTuple):
    """The seconds until a deleted queue's name can be used again, and until a purged queue can be purged again."""

    recreate_s: int = RECREATE_WAIT_S
    purge_s: int = PURGE_WAIT_S


class Queues:
    """The operations on whole queues."""

    def __init__(
        self,
        store: QueueStore,
        cache: QueueCache,
        engines: Mapping[str, Engine],
        clock: Clock,
        audit: QueueAudit,
        *,
        default_engine: str,
        waits: QueueWaits,
    ) -> None:
        self._store = store
        self._cache = cache
        self._engines = engines
        self._clock = clock
        self._audit = audit
        self._default_engine = default_engine
        self._waits = waits

    # -- creating -----------------------------------------------------------------------------------------------------

    async def create(
        self,
        account: str,
        region: str,
        name: str | None,
        given: Mapping[str, str],
        given_tags: Mapping[str, str],
    ) -> tuple[Queue, bool]:
        """Create the queue. If it exists, return it unless a given attribute differs: then raise RequestError. The
        second value says whether it is new."""
        fifo = wants_fifo(given)
        key = (account, region, check_queue_name(name, fifo=fifo))
        tags = merge_tags(key[2], {}, given_tags)
        existing = await self._store.get(key)
        if existing is None:
            await self._check_not_deleted_recently(key)
            queue = self._new(key, given, tags)
            await self._check_redrive(key, given, fifo=fifo)
            if AUDIT in queue.attributes:
                await self._audit.switched(queue.arn, on=True, settle_ms=0)
            existing = await self._store.create(queue)
            if existing.id == queue.id:
                _warn_of_policy(queue.arn, given)
                return queue, True
        return self._check_same(existing, given), False

    def _new(self, key: QueueKey, given: Mapping[str, str], tags: dict[str, str]) -> Queue:
        """The record of a new queue. Raises RequestError for attributes that SQS, or the queue's engine, refuses."""
        account, region, name = key
        engine_name = given.get(ENGINE, self._default_engine)
        engine = engine_named(self._engines, engine_name)
        attributes = check_new(without_engine(given, engine.options), fifo=is_fifo(name))
        check_capabilities(engine_name, engine.capabilities, attributes, fifo=is_fifo(name))
        if ENGINE in given:
            attributes[ENGINE] = engine_name
        now_ms = self._clock.now_ms()
        return Queue(
            id=hex_id(),
            account=account,
            region=region,
            name=name,
            engine=engine_name,
            created_ms=now_ms,
            modified_ms=now_ms,
            attributes=merge_changes({}, attributes),
            tags=tags,
            options=options_of_new(given, engine.options),
        )

    def _check_same(self, existing: Queue, given: Mapping[str, str]) -> Queue:
        """`existing`, if it matches the attributes given to CreateQueue; else raise RequestError."""
        if given.get(ENGINE, existing.engine) != existing.engine:
            raise _different(ENGINE)
        options = self._cache.engine(existing).options
        wanted = check_new(without_engine(given, options), fifo=existing.fifo)
        difference = first_difference(existing, wanted) or first_different_option(existing, given, options)
        if difference is not None:
            raise _different(difference)
        return existing

    async def _check_not_deleted_recently(self, key: QueueKey) -> None:
        if not self._waits.recreate_s:
            return
        if self._clock.now_ms() - await self._store.deleted_at_ms(key) < self._waits.recreate_s * 1000:
            raise RequestError(
                "QueueDeletedRecently",
                f"You must wait {self._waits.recreate_s} seconds after deleting a queue before you can create another "
                "with the same name.",
            )

    # -- changing -----------------------------------------------------------------------------------------------------

    async def set_attributes(self, view: QueueView, given: Mapping[str, str]) -> bool:
        """Returns whether an attribute has another value than before."""
        options = view.engine.options
        new_options = check_option_changes(view.queue, given, options)
        changes = check_changes(without_engine(given, options), fifo=view.fifo)
        check_required(view.engine.capabilities, changes)
        check_delay(view.engine.capabilities, changes)
        await self._check_redrive(view.queue.key, given, fifo=view.fifo)
        if AUDIT in changes:
            await self._switch_audit(view, on=bool(changes[AUDIT]))
        now_ms = self._clock.now_ms()
        changed = await self.update(
            view,
            lambda queue: replace(
                queue,
                attributes=merge_changes(queue.attributes, changes),
                options={**queue.options, **new_options},
                modified_ms=now_ms,
            ),
        )
        _warn_of_policy(view.arn, given)
        if not _OF_MAINTENANCE.isdisjoint(changes):
            await self._announce(view)
        # SQS: on a standard queue, the new delay applies to later messages only
        if view.fifo and "DelaySeconds" in changes:
            await view.engine.redelay(view.ref, int(changes["DelaySeconds"]) * 1000, now_ms)
        return changed

    async def _announce(self, view: QueueView) -> None:
        """Give the engine the queue's attributes: messages must not be removed after a retention period that is not
        the queue's any more."""
        current = await self._cache.read(view.queue.key)
        if current is not None and current.queue.id == view.queue.id:
            await current.engine.set_attributes(current.ref, self._clock.now_ms())

    async def _switch_audit(self, view: QueueView, *, on: bool) -> None:
        """Write that the audit begins or ends, by the queue's record: another process may have changed it just now."""
        current = await self._store.get(view.queue.key)
        if current is not None and on != (AUDIT in current.attributes):
            await self._audit.switched(view.arn, on=on)

    async def set_policy(self, view: QueueView, change: Callable[[str], str]) -> bool:
        """Replace the policy by the result of `change` for its current text; '' is no policy. Returns whether the two
        differ."""
        now_ms = self._clock.now_ms()

        def changed(queue: Queue) -> Queue:
            policy = change(queue.attributes.get("Policy", ""))
            return replace(queue, attributes=merge_changes(queue.attributes, {"Policy": policy}), modified_ms=now_ms)

        return await self.update(view, changed)

    async def update(self, view: QueueView, change: QueueChange) -> bool:
        """Replace the queue's record by the result of `change` for the current one. `change` may raise RequestError.
        Returns whether the two differ in more than their times."""
        return await self._update(view.queue, change)

    async def _update(self, known: Queue, change: QueueChange) -> bool:
        for _ in range(UPDATE_TRIES_MAX):
            current = await self._store.get(known.key)
            if current is None or current.id != known.id:
                raise no_such_queue()
            changed = change(current)
            if await self._store.replace(replace(changed, version=current.version + 1), current.version):
                return replace(changed, modified_ms=current.modified_ms) != current
        raise StoreUnavailable(f"too many changes of {known.arn} at once")

    async def _check_redrive(self, source: QueueKey, given: Mapping[str, str], *, fifo: bool) -> None:
        """Raise RequestError unless the dead-letter queue of the given RedrivePolicy exists and accepts messages of
        `source`, and a given RedriveAllowPolicy names queues of its region."""
        account, region, name = source
        if allow := given.get("RedriveAllowPolicy"):
            check_redrive_sources(allow, region=region)
        text = given.get("RedrivePolicy")
        if not text:
            return
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
        if view.audit:
            self._audit.check()
        now_ms = self._clock.now_ms()

        def mark(queue: Queue) -> Queue:
            if now_ms - queue.purged_ms < self._waits.purge_s * 1000:
                raise RequestError(
                    "PurgeQueueInProgress",
                    f"Only one PurgeQueue operation on {queue.name} is allowed every {self._waits.purge_s} seconds.",
                )
            return replace(queue, purged_ms=now_ms)

        await self.update(view, mark)
        if view.audit:
            await self._audit.emptied(view.arn, "purged")
        await view.engine.purge(view.ref, now_ms)
        if view.audit:
            await self._audit.emptied(view.arn, "purged")

    async def delete(self, view: QueueView) -> None:
        if view.audit:
            self._audit.check()
            await self._audit.emptied(view.arn, "queue_deleted")
        if not await self._store.delete(view.queue, self._clock.now_ms()):
            raise no_such_queue()
        await self._drop(view.queue)
        if view.audit:
            await self._audit.emptied(view.arn, "queue_deleted")

    async def drop_deleted(self) -> None:
        """Drop the queues that were deleted but, after a crash, not dropped from their engines."""
        for queue in await self._store.undropped():
            if queue.engine in self._engines:  # the others wait until their engine runs again
                await self._drop(queue)

    async def _drop(self, queue: Queue) -> None:
        ref = QueueRef(queue.id, queue.fifo, 0, options=tuple(sorted(queue.options.items())))
        await self._cache.engine(queue).drop(ref, self._clock.now_ms())
        await self._store.forget_dropped(queue.id)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def counts(self, view: QueueView) -> Counts:
        return await view.engine.counts(view.ref, self._clock.now_ms())

    async def list_names(self, account: str, region: str, prefix: str, after: str, n: int) -> list[str]:
        return await self._store.list_names(account, region, prefix, after, n)

    async def records(self, account: str, region: str, names: Sequence[str]) -> list[Queue]:
        """The queues with these names, without those that do not exist."""
        found = await asyncio.gather(*[self._store.get((account, region, name)) for name in names])
        return [queue for queue in found if queue is not None]

    async def dead_letter_sources(self, view: QueueView, after: str, n: int) -> list[str]:
        return await self._store.dead_letter_sources(view.arn, after, n)


def _warn_of_policy(queue_arn: str, given: Mapping[str, str]) -> None:
    policy = given.get("Policy")
    unknown = unknown_actions(read_policy(policy)) if policy else []
    if unknown:
        log.warning("queue_policy.unknown_actions_accepted", queue=queue_arn, actions=unknown)


def _different(name: str) -> RequestError:
    return RequestError(
        "QueueNameExists", f"A queue already exists with the same name and a different value for attribute {name}"
    )
