"""Queues of an account: list, create, show, change, delete, purge, count, redrive."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from cns.rest.models import HourTotals, Queue, QueueList, Redrive, RedriveList, Statistics, Totals
from cns_common.errors import RequestError
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.models import LIST_MAX, QUEUE_NAME, NewQueue, NewRedrive, QueueChange
from cns_server.rest.problems import Problem
from cqs.authorization import QueueAccess
from cqs.engines.contract import Counts
from cqs.engines.views import HourStatistics, QueueStatistics, statistics_view
from cqs.queues.attributes import describe
from cqs.queues.urls import key_of_arn
from cqs.redrive.task import read_task_handle
from cqs.service import QueueService

AccountId = Annotated[str, Path(description="Twelve digits.", pattern="^[0-9]{12}$")]
QueueName = Annotated[str, Path(pattern=QUEUE_NAME, max_length=80)]
After = Annotated[str, Query(max_length=2_000, pattern="^[!-~]*$", description="The `next` of the page before.")]
DEFINITIONS_MAX = 100
_COUNTS = {
    "visible": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}


class QueueRoutes:
    def __init__(self, calls: RestCalls, queues: QueueService) -> None:
        self._calls = calls
        self._access = QueueAccess(queues.cache, queues.clock)

    def add_to(self, router: APIRouter) -> None:
        queues = "/accounts/{account}/queues"
        queue = queues + "/{queue}"
        router.add_api_route(queues, self.list_queues, methods=["GET"], response_model=QueueList)
        router.add_api_route(
            queues,
            self.create_queue,
            methods=["POST"],
            status_code=201,
            response_model=Queue,
            responses={200: {"model": Queue, "description": "The queue exists with these attributes."}},
        )
        router.add_api_route(queue, self.show_queue, methods=["GET"], response_model=Queue)
        router.add_api_route(queue, self.change_queue, methods=["PATCH"], response_model=Queue)
        router.add_api_route(queue, self.delete_queue, methods=["DELETE"], status_code=204, response_class=Response)
        router.add_api_route(
            queue + "/messages/all", self.purge_queue, methods=["DELETE"], status_code=204, response_class=Response
        )
        router.add_api_route(queue + "/statistics", self.queue_statistics, methods=["GET"], response_model=Statistics)
        router.add_api_route(
            queue + "/deadLetterSources", self.dead_letter_sources, methods=["GET"], response_model=QueueList
        )
        router.add_api_route(queue + "/redrives", self.list_redrives, methods=["GET"], response_model=RedriveList)
        router.add_api_route(
            queue + "/redrives", self.start_redrive, methods=["POST"], status_code=202, response_model=Redrive
        )
        router.add_api_route(
            queue + "/redrives/{handle}", self.cancel_redrive, methods=["DELETE"], response_model=Redrive
        )

    async def list_queues(
        self,
        rest: Begun,
        account: AccountId,
        prefix: Annotated[str, Query(max_length=80, pattern="^[A-Za-z0-9_.-]*$")] = "",
        after: After = "",
        limit: Annotated[int, Query(ge=1, le=LIST_MAX)] = LIST_MAX,
        definitions: Annotated[bool, Query(description=f"Also the definitions, {DEFINITIONS_MAX} a page.")] = False,
    ) -> QueueList:
        """The names of the account's queues, sorted; with `definitions` also their attributes and tags."""
        self._calls.check_own(rest, account)
        limit = min(limit, DEFINITIONS_MAX) if definitions else limit
        params = {"QueueNamePrefix": prefix or None, "NextToken": after or None, "MaxResults": limit}
        result = await self._calls.run(rest, "sqs:ListQueues", params, account=account)
        names = [url.rpartition("/")[2] for url in result.get("QueueUrls") or ()]
        shown = [await self._definition(rest, account, name) for name in names] if definitions else None
        found = None if shown is None else [one for one in shown if one is not None]
        return QueueList(queues=names, definitions=found, next=result.get("NextToken"))

    async def _definition(self, rest: RestCall, account: str, queue: str) -> Queue | None:
        """The queue without its counts; None if the caller may not see it, or it was deleted meanwhile."""
        try:
            view = await self._access.queue_by_name(rest.call, account, queue, "GetQueueAttributes")
            self._calls.check(rest, "sqs:GetQueueAttributes", account=account, queue=queue)
            shown = describe(view.queue, ["All"], Counts(), view.engine.options)
        except (RequestError, Problem):
            return None
        return Queue(
            name=queue,
            account=account,
            region=rest.region,
            arn=view.arn,
            url=rest.queue_url(account, queue),
            attributes={name: text for name, text in shown.items() if name not in _COUNTS.values()},
            tags=view.queue.tags,
        )

    async def create_queue(self, rest: Begun, account: AccountId, body: NewQueue, response: Response) -> Queue:
        """Create a queue. 201, or 200 if it exists with these attributes."""
        async with self._calls.refusals(rest, "sqs:CreateQueue", body.name):
            self._calls.check_own(rest, account)
        existed = await self._exists(rest, account, body.name)
        params = {"QueueName": body.name, "Attributes": body.attributes, "tags": body.tags}
        await self._calls.run(rest, "sqs:CreateQueue", params, account=account, queue=body.name)
        if existed:
            response.status_code = 200
        return Queue(
            name=body.name,
            account=account,
            region=rest.region,
            arn=rest.queue_arn(account, body.name),
            url=rest.queue_url(account, body.name),
            attributes=body.attributes,
            tags=body.tags,
        )

    async def show_queue(self, rest: Begun, account: AccountId, queue: QueueName) -> Queue:
        """The queue's definition with all attributes."""
        params = {"AttributeNames": ["All"]}
        attributes = (await self._run(rest, "sqs:GetQueueAttributes", account, queue, params))["Attributes"]
        tags = (await self._run(rest, "sqs:ListQueueTags", account, queue)).get("Tags") or {}
        return Queue(
            name=queue,
            account=account,
            region=rest.region,
            arn=attributes["QueueArn"],
            url=rest.queue_url(account, queue),
            attributes=attributes,
            tags=tags,
        )

    async def change_queue(self, rest: Begun, account: AccountId, queue: QueueName, body: QueueChange) -> Queue:
        """Set attributes."""
        await self._run(rest, "sqs:SetQueueAttributes", account, queue, {"Attributes": body.attributes})
        return await self.show_queue(rest, account, queue)

    async def delete_queue(self, rest: Begun, account: AccountId, queue: QueueName) -> None:
        """Delete the queue and its messages."""
        await self._run(rest, "sqs:DeleteQueue", account, queue)

    async def purge_queue(self, rest: Begun, account: AccountId, queue: QueueName) -> None:
        """Delete all messages."""
        await self._run(rest, "sqs:PurgeQueue", account, queue)

    async def queue_statistics(
        self,
        rest: Begun,
        account: AccountId,
        queue: QueueName,
        by_hour: Annotated[bool, Query(alias="byHour", description="Also what came in each hour.")] = False,
    ) -> Statistics:
        """Counts of messages that wait, are leased, are delayed; sums and rates, if the queue's engine keeps them."""
        params = {"AttributeNames": [*_COUNTS.values()]}
        shown = (await self._run(rest, "sqs:GetQueueAttributes", account, queue, params))["Attributes"]
        view = await self._access.queue_by_name(rest.call, account, queue, "GetQueueAttributes")
        kept = statistics_view(view.engine)
        counts = {name: int(shown[attribute]) for name, attribute in _COUNTS.items()}
        totals = None if kept is None else _totals(await kept.statistics(view.ref))
        hours = None if kept is None or not by_hour else [_hour(one) for one in await kept.statistics_by_hour(view.ref)]
        return Statistics(**counts, totals=totals, hours=hours)

    async def dead_letter_sources(
        self, rest: Begun, account: AccountId, queue: QueueName, after: After = ""
    ) -> QueueList:
        """The names of the queues whose dead-letter queue this is."""
        params = {"NextToken": after or None, "MaxResults": LIST_MAX}
        result = await self._run(rest, "sqs:ListDeadLetterSourceQueues", account, queue, params)
        names = [url.rpartition("/")[2] for url in result.get("queueUrls") or ()]
        return QueueList(queues=names, next=result.get("NextToken"))

    # -- redrives -----------------------------------------------------------------------------------------------------

    async def list_redrives(self, rest: Begun, account: AccountId, queue: QueueName) -> RedriveList:
        """The last redrives from this dead-letter queue, the newest first."""
        params = {"SourceArn": rest.queue_arn(account, queue), "MaxResults": 10}
        result = await self._calls.run(rest, "sqs:ListMessageMoveTasks", params, account=account, queue=queue)
        return RedriveList(redrives=[_redrive(task) for task in result.get("Results") or ()])

    async def start_redrive(self, rest: Begun, account: AccountId, queue: QueueName, body: NewRedrive) -> Redrive:
        """Move the messages of this dead-letter queue back to where they came from, or to another queue."""
        source = rest.queue_arn(account, queue)
        target = key_of_arn(body.destination_arn or "")
        if target is not None:  # a token may name the only queue that it allows
            async with self._calls.refusals(rest, "sqs:StartMessageMoveTask", source):
                self._calls.check(rest, "sqs:StartMessageMoveTask", account=target[0], queue=target[2])
        params = {
            "SourceArn": source,
            "DestinationArn": body.destination_arn,
            "MaxNumberOfMessagesPerSecond": body.messages_per_second,
        }
        result = await self._calls.run(rest, "sqs:StartMessageMoveTask", params, account=account, queue=queue)
        return Redrive(
            status="RUNNING",
            source_arn=source,
            destination_arn=body.destination_arn,
            handle=result["TaskHandle"],
            moved=0,
        )

    async def cancel_redrive(self, rest: Begun, account: AccountId, queue: QueueName, handle: str) -> Redrive:
        """Cancel a redrive. What it has moved stays moved."""
        async with self._calls.refusals(rest, "sqs:CancelMessageMoveTask", handle):
            self._calls.check(rest, "sqs:CancelMessageMoveTask", account=account, queue=queue)
        if read_task_handle(handle)[0] != rest.queue_arn(account, queue):
            raise Problem(404, "NoSuchRedrive", "The queue has no such redrive.")
        params = {"TaskHandle": handle}
        result = await self._calls.run(rest, "sqs:CancelMessageMoveTask", params, account=account, queue=queue)
        return Redrive(
            status="CANCELLING",
            source_arn=rest.queue_arn(account, queue),
            handle=handle,
            moved=result["ApproximateNumberOfMessagesMoved"],
        )

    async def _run(
        self, rest: RestCall, action: str, account: str, queue: str, params: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        given = {"QueueUrl": rest.queue_url(account, queue), **(params or {})}
        return await self._calls.run(rest, action, given, account=account, queue=queue)

    async def _exists(self, rest: RestCall, account: str, queue: str) -> bool:
        try:
            await self._calls.run(
                rest,
                "sqs:GetQueueUrl",
                {"QueueName": queue, "QueueOwnerAWSAccountId": account},
                account=account,
                queue=queue,
            )
        except Problem:
            return False
        except RequestError as error:
            if error.code not in ("QueueDoesNotExist", "AccessDenied"):
                raise
            return False
        return True


def _totals(statistics: QueueStatistics | None) -> Totals | None:
    if statistics is None:
        return None
    return Totals(
        pushed=statistics.pushed,
        popped=statistics.popped,
        depth=statistics.depth,
        pushed_per_second=statistics.pushed_per_s,
        popped_per_second=statistics.popped_per_s,
        counted_at=statistics.at_ms,
    )


def _hour(statistics: HourStatistics) -> HourTotals:
    return HourTotals(hour=statistics.at_ms, pushed=statistics.pushed, popped=statistics.popped, depth=statistics.depth)


def _redrive(task: dict[str, Any]) -> Redrive:
    return Redrive(
        status=task["Status"],
        source_arn=task["SourceArn"],
        destination_arn=task.get("DestinationArn"),
        handle=task.get("TaskHandle"),
        moved=task["ApproximateNumberOfMessagesMoved"],
        to_move=task.get("ApproximateNumberOfMessagesToMove"),
        started_at=task.get("StartedTimestamp"),
        failure=task.get("FailureReason"),
    )
