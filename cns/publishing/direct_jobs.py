"""Messages to one phone or one mobile endpoint, made the business of the queues."""

from __future__ import annotations

from cns.delivery import jobs
from cns.delivery.jobs import DirectJob
from cns.notification import Notification
from cns.queue_port.contract import Put, QueuePort
from cns_common.aws.call import Call


class DirectJobs:
    def __init__(self, queue: QueuePort) -> None:
        self._queue = queue

    async def put_sms(self, call: Call, number: str, notification: Notification) -> None:
        await self._put(call, "sms", number, notification)

    async def put_push(self, call: Call, endpoint_arn: str, notification: Notification) -> None:
        await self._put(call, "application", endpoint_arn, notification)

    async def _put(self, call: Call, protocol: str, endpoint: str, notification: Notification) -> None:
        """Durable when it returns."""
        job = DirectJob(notification.id, call.caller.account, call.region, protocol, endpoint, notification)
        await self._queue.put([Put(jobs.ENDPOINT_JOBS, notification.id, jobs.encode(job), jobs.group_of(job))])
