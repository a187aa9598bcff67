"""GetQueueAttributes, SetQueueAttributes."""

from __future__ import annotations

from cns_common.aws.call import Call, Params, Result
from cqs.authorization import QueueAccess
from cqs.engines.contract import Counts
from cqs.messages.validation import missing
from cqs.queues.attributes import describe, wants_counts
from cqs.queues.queues import Queues


class AttributeOperations:
    def __init__(self, access: QueueAccess, queues: Queues) -> None:
        self._access = access
        self._queues = queues

    async def get_queue_attributes(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "GetQueueAttributes")
        names: list[str] = params.get("AttributeNames") or []
        counts = await self._queues.counts(view) if wants_counts(names) else Counts()
        return {"Attributes": describe(view.queue, names, counts, view.engine.options)}

    async def set_queue_attributes(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "SetQueueAttributes")
        given: dict[str, str] = params.get("Attributes") or {}
        if not given:
            raise missing("Attribute.Name")
        call.changed = await self._queues.set_attributes(view, given)
        return {}
