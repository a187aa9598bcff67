"""CreateQueue, DeleteQueue, GetQueueUrl, ListQueues, ListDeadLetterSourceQueues, PurgeQueue."""

from __future__ import annotations

from common.aws.call import Call, Params, Result
from cqs.access import Access
from cqs.addresses import queue_key, queue_url
from cqs.names import missing_queue_name
from cqs.paging import read_page
from cqs.queues import Queues
from cqs.tags import tagged


class QueueOperations:
    def __init__(self, access: Access, queues: Queues) -> None:
        self._access = access
        self._queues = queues

    async def create_queue(self, call: Call, params: Params) -> Result:
        account = self._access.own_account(call, "CreateQueue")
        name: str | None = params.get("QueueName")
        tags = tagged(name or "", {}, params.get("tags") or {})
        queue = await self._queues.create(account, call.region, name, params.get("Attributes") or {}, tags)
        return {"QueueUrl": queue_url(call, queue.account, queue.name)}

    async def delete_queue(self, call: Call, params: Params) -> Result:
        await self._queues.delete(await self._access.queue(call, params, "DeleteQueue"))
        return {}

    async def get_queue_url(self, call: Call, params: Params) -> Result:
        name: str | None = params.get("QueueName")
        if not name:
            raise missing_queue_name()
        account = params.get("QueueOwnerAWSAccountId") or call.caller.account
        view = await self._access.queue_of(call, queue_key(call, account, name), "GetQueueUrl")
        return {"QueueUrl": queue_url(call, view.account, name)}

    async def list_queues(self, call: Call, params: Params) -> Result:
        account = self._access.own_account(call, "ListQueues")
        wish = read_page(params)
        prefix: str = params.get("QueueNamePrefix") or ""
        if not prefix.isascii():
            return {}
        names = await self._queues.list_names(account, call.region, prefix, wish.after, wish.n + 1)
        page, token = wish.cut(names)
        return {"QueueUrls": [queue_url(call, account, name) for name in page], **token}

    async def list_dead_letter_source_queues(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "ListDeadLetterSourceQueues")
        wish = read_page(params)
        page, token = wish.cut(await self._queues.dead_letter_sources(view, wish.after, wish.n + 1))
        return {"queueUrls": [queue_url(call, view.account, name) for name in page], **token}

    async def purge_queue(self, call: Call, params: Params) -> Result:
        await self._queues.purge(await self._access.queue(call, params, "PurgeQueue"))
        return {}
