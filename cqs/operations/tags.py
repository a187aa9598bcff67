"""TagQueue, UntagQueue, ListQueueTags."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from cns_common.aws.call import Call, Params, Result
from cqs.authorization import QueueAccess
from cqs.messages.validation import missing
from cqs.queues.queues import Queues
from cqs.queues.tags import merge_tags


class QueueTagOperations:
    def __init__(self, access: QueueAccess, queues: Queues) -> None:
        self._access = access
        self._queues = queues

    async def tag_queue(self, call: Call, params: Params) -> Result:
        added: dict[str, str] = params.get("Tags") or {}
        view = await self._access.queue(_naming(call, added, added), params, "TagQueue")
        if not added:
            raise missing("Tags")
        call.changed = await self._queues.update(
            view, lambda queue: replace(queue, tags=merge_tags(queue.name, queue.tags, added))
        )
        return {}

    async def untag_queue(self, call: Call, params: Params) -> Result:
        keys = frozenset(params.get("TagKeys") or ())
        view = await self._access.queue(_naming(call, keys), params, "UntagQueue")
        if not keys:
            raise missing("TagKeys")
        call.changed = await self._queues.update(
            view,
            lambda queue: replace(queue, tags={key: value for key, value in queue.tags.items() if key not in keys}),
        )
        return {}

    async def list_queue_tags(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "ListQueueTags")
        return {"Tags": dict(view.queue.tags)}


def _naming(call: Call, keys: Iterable[str], tags: Mapping[str, str] | None = None) -> Call:
    """The call with the tags of the request as condition values for policies."""
    values = {f"aws:RequestTag/{key}": value for key, value in (tags or {}).items()}
    return dataclasses.replace(call, facts={**call.facts, **values, "aws:TagKeys": [*keys]})
