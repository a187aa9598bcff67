"""CreateQueue, DeleteQueue, GetQueueUrl, ListQueues, ListDeadLetterSourceQueues, PurgeQueue."""

from __future__ import annotations

from cns_common.aws.call import Call, Params, Result
from cqs.authorization import QueueAccess
from cqs.limits import QUEUE_NAME_CHARS_MAX
from cqs.localstack.url_styles import WriteUrl
from cqs.paging import read_page
from cqs.queues.names import missing_queue_name
from cqs.queues.queues import Queues
from cqs.queues.urls import queue_url


class QueueOperations:
    def __init__(self, access: QueueAccess, queues: Queues, write_url: WriteUrl = queue_url) -> None:
        self._access = access
        self._queues = queues
        self._write_url = write_url

    async def create_queue(self, call: Call, params: Params) -> Result:
        account = self._access.own_account(call, "CreateQueue")
        name: str | None = params.get("QueueName")
        attributes, tags = params.get("Attributes") or {}, params.get("tags") or {}
        queue, call.changed = await self._queues.create(account, call.region, name, attributes, tags)
        return {"QueueUrl": self._write_url(call, queue.key)}

    async def delete_queue(self, call: Call, params: Params) -> Result:
        await self._queues.delete(await self._access.queue(call, params, "DeleteQueue"))
        return {}

    async def get_queue_url(self, call: Call, params: Params) -> Result:
        name: str | None = params.get("QueueName")
        if not name:
            raise missing_queue_name()
        account = params.get("QueueOwnerAWSAccountId") or call.caller.account
        view = await self._access.queue_by_name(call, account, name, "GetQueueUrl")
        return {"QueueUrl": self._write_url(call, view.queue.key)}

    async def list_queues(self, call: Call, params: Params) -> Result:
        account = self._access.own_account(call, "ListQueues")
        request = read_page(params)
        prefix: str = params.get("QueueNamePrefix") or ""
        if not prefix.isascii() or len(prefix) > QUEUE_NAME_CHARS_MAX:
            return {}
        names = await self._queues.list_names(account, call.region, prefix, request.after, request.n + 1)
        page, token = request.cut(names)
        return {"QueueUrls": [self._write_url(call, (account, call.region, name)) for name in page], **token}

    async def list_dead_letter_source_queues(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "ListDeadLetterSourceQueues")
        request = read_page(params)
        page, token = request.cut(await self._queues.dead_letter_sources(view, request.after, request.n + 1))
        region = view.queue.region
        return {"queueUrls": [self._write_url(call, (view.account, region, name)) for name in page], **token}

    async def purge_queue(self, call: Call, params: Params) -> Result:
        await self._queues.purge(await self._access.queue(call, params, "PurgeQueue"))
        return {}
