"""Debug views: the queues of an account, and the buckets, pointers and rows of a queue on an engine that has them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from cns.rest.debug import (
    Bucket,
    Monoton,
    Pointers,
    StoredMessage,
    StoredQueue,
    StoredQueues,
    Tombstone,
)
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.problems import Problem
from cns_server.rest.queues import AccountId, After, QueueName
from cqs.engines.views import BucketView, RawBucket, RawMessage, bucket_view
from cqs.queues.model import Queue, decode_body
from cqs.queues.view import QueueView
from cqs.service import QueueService

NUMBER_MAX = 2**53 - 1
"""The largest integer that every reader of JSON keeps."""
QUEUES_MAX = 100
BucketNumber = Annotated[int, Path(ge=0, le=NUMBER_MAX)]
MessagePointer = Annotated[int, Path(ge=0, le=NUMBER_MAX, description="The message's monoton.")]
OnlyUnacknowledged = Annotated[bool, Query(alias="onlyUnacknowledged")]


class DebugRoutes:
    def __init__(self, calls: RestCalls, queues: QueueService) -> None:
        self._calls = calls
        self._queues = queues

    def add_to(self, router: APIRouter) -> None:
        queues = "/debug/accounts/{account}/queues"
        queue = queues + "/{queue}"
        add = router.add_api_route
        add(queues, self.debug_queues, methods=["GET"], response_model=StoredQueues)
        add(queue + "/pointers", self.debug_pointers, methods=["GET"], response_model=Pointers)
        add(queue + "/monotons/current", self.debug_monoton, methods=["GET"], response_model=Monoton)
        add(queue + "/buckets/current/messages", self.debug_current_bucket, methods=["GET"], response_model=Bucket)
        add(queue + "/buckets/{bucket}/messages", self.debug_bucket, methods=["GET"], response_model=Bucket)
        add(queue + "/buckets/{bucket}/tombstone", self.debug_tombstone, methods=["GET"], response_model=Tombstone)
        add(queue + "/messages/{pointer}", self.debug_message, methods=["GET"], response_model=StoredMessage)

    async def debug_queues(
        self,
        rest: Begun,
        account: AccountId,
        after: After = "",
        limit: Annotated[int, Query(ge=1, le=QUEUES_MAX)] = QUEUES_MAX,
    ) -> StoredQueues:
        """The records of the account's queues in the region, sorted by name."""
        self._calls.check_administrator(rest, account)
        queues = self._queues.queues
        names = await queues.list_names(account, rest.region, "", after, limit + 1)
        found = await queues.records(account, rest.region, names[:limit])
        return StoredQueues(
            queues=[_queue(one) for one in found], next=names[limit - 1] if len(names) > limit else None
        )

    async def debug_pointers(self, rest: Begun, account: AccountId, queue: QueueName) -> Pointers:
        """The reader, repair and invisibility pointers, which may be in different buckets."""
        view, buckets = await self._buckets(rest, account, queue)
        found = await buckets.pointers(view.ref)
        return Pointers(
            reader=found.reader, repair=found.repair, invisibility=found.invisibility, bucket_size=found.bucket_size
        )

    async def debug_monoton(self, rest: Begun, account: AccountId, queue: QueueName) -> Monoton:
        """The next message number."""
        view, buckets = await self._buckets(rest, account, queue)
        return Monoton(next=await buckets.monoton(view.ref))

    async def debug_current_bucket(
        self, rest: Begun, account: AccountId, queue: QueueName, only_unacknowledged: OnlyUnacknowledged = False
    ) -> Bucket:
        """The rows of the bucket that consumers read."""
        view, buckets = await self._buckets(rest, account, queue)
        return _bucket(await buckets.current_bucket(view.ref, only_unacked=only_unacknowledged))

    async def debug_bucket(
        self,
        rest: Begun,
        account: AccountId,
        queue: QueueName,
        bucket: BucketNumber,
        only_unacknowledged: OnlyUnacknowledged = False,
    ) -> Bucket:
        """The rows of a bucket."""
        view, buckets = await self._buckets(rest, account, queue)
        return _bucket(await buckets.bucket(view.ref, bucket, only_unacked=only_unacknowledged))

    async def debug_tombstone(
        self, rest: Begun, account: AccountId, queue: QueueName, bucket: BucketNumber
    ) -> Tombstone:
        """When a bucket was sealed."""
        view, buckets = await self._buckets(rest, account, queue)
        return Tombstone(bucket=bucket, sealed_at=await buckets.sealed_at_ms(view.ref, bucket))

    async def debug_message(
        self, rest: Begun, account: AccountId, queue: QueueName, pointer: MessagePointer
    ) -> StoredMessage:
        """A message's row, by its number."""
        view, buckets = await self._buckets(rest, account, queue)
        found = await buckets.message(view.ref, pointer)
        if found is None:
            raise Problem(404, "MessageDoesNotExist", f"The queue has no message {pointer}.")
        body = None if rest.principal.operator else await buckets.body(view.ref, pointer)
        return _message(found, None if body is None else decode_body(body).text)

    async def _buckets(self, rest: RestCall, account: str, queue: str) -> tuple[QueueView, BucketView]:
        self._calls.check_administrator(rest, account)
        view = await self._queues.cache.find((account, rest.region, queue))
        if view is None:
            raise Problem(404, "QueueDoesNotExist", "The specified queue does not exist.")
        buckets = bucket_view(view.engine)
        if buckets is None:
            text = f"The queue's engine, {view.queue.engine}, does not keep messages in buckets."
            raise Problem(422, "EngineHasNoSuchView", text)
        return view, buckets


def _queue(queue: Queue) -> StoredQueue:
    return StoredQueue(
        id=queue.id,
        name=queue.name,
        account=queue.account,
        region=queue.region,
        engine=queue.engine,
        created_at=queue.created_ms,
        modified_at=queue.modified_ms,
        version=queue.version,
        purged_at=queue.purged_ms or None,
        attributes=queue.attributes,
        options=queue.options,
        tags=queue.tags,
    )


def _bucket(bucket: RawBucket) -> Bucket:
    return Bucket(
        bucket=bucket.number, sealed_at=bucket.sealed_at_ms, messages=[_message(one, None) for one in bucket.messages]
    )


def _message(message: RawMessage, body: str | None) -> StoredMessage:
    return StoredMessage(
        pointer=message.monoton,
        message_id=message.id,
        tag=message.tag,
        version=message.version,
        acknowledged=message.acked,
        delivery_count=message.deliveries,
        visible_at=message.visible_at_ms,
        sent_at=message.born_at_ms,
        first_received_at=message.first_at_ms or None,
        moved_to=message.moved_to,
        body=body,
    )
