"""TagQueue, UntagQueue, ListQueueTags."""

from __future__ import annotations

from msgspec.structs import replace

from common.aws.call import Call, Params, Result
from cqs.access import Access
from cqs.drafts import missing
from cqs.queues import Queues
from cqs.tags import tagged


class TagOperations:
    def __init__(self, access: Access, queues: Queues) -> None:
        self._access = access
        self._queues = queues

    async def tag_queue(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "TagQueue")
        added: dict[str, str] = params.get("Tags") or {}
        if not added:
            raise missing("Tags")
        await self._queues.update(view, lambda queue: replace(queue, tags=tagged(queue.name, queue.tags, added)))
        return {}

    async def untag_queue(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "UntagQueue")
        keys = frozenset(params.get("TagKeys") or ())
        if not keys:
            raise missing("TagKeys")
        await self._queues.update(
            view,
            lambda queue: replace(queue, tags={key: value for key, value in queue.tags.items() if key not in keys}),
        )
        return {}

    async def list_queue_tags(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "ListQueueTags")
        return {"Tags": dict(view.queue.tags)}
