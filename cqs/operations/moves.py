"""StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks."""

from __future__ import annotations

from cns_common.aws.call import Call, Params, Result
from cns_common.errors import RequestError
from cqs.authorization import QueueAccess
from cqs.limits import MOVE_RATE_MAX, MOVE_TASKS_LISTED_MAX
from cqs.messages.validation import missing
from cqs.queues.names import QueueKey
from cqs.queues.urls import key_of_arn
from cqs.queues.view import QueueView
from cqs.redrive.task import MoveTask, read_task_handle, task_handle
from cqs.redrive.tasks import MoveTaskList

_OF_A_MOVE = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
"""Actions on the source queue that the caller must be allowed besides the operation itself."""
_ARN_FORM = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"


class MoveOperations:
    def __init__(self, access: QueueAccess, tasks: MoveTaskList) -> None:
        self._access = access
        self._tasks = tasks

    async def start_message_move_task(self, call: Call, params: Params) -> Result:
        source_key = _arn_key(params, "SourceArn")
        destination_key = _arn_key(params, "DestinationArn") if "DestinationArn" in params else None
        if destination_key == source_key:
            raise _refused("Source queue arn and destination queue arn cannot be the same.")
        per_second = _number(params, "MaxNumberOfMessagesPerSecond", MOVE_RATE_MAX, 0)
        source = await self._queue(call, source_key, "SourceArn", "StartMessageMoveTask", *_OF_A_MOVE)
        destination = None
        if destination_key is not None:
            destination = await self._queue(call, destination_key, "DestinationArn", "SendMessage")
            _check_destination(source, destination)
        task = await self._tasks.start(source, destination, per_second)
        return {"TaskHandle": task_handle(task)}

    async def cancel_message_move_task(self, call: Call, params: Params) -> Result:
        text: str = params.get("TaskHandle") or ""
        if not text:
            raise missing("TaskHandle")
        source_arn, task_id = read_task_handle(text)
        key = key_of_arn(source_arn)
        if key is None:
            raise _refused("Value for parameter TaskHandle is invalid.")
        await self._queue(call, key, "SourceArn", "CancelMessageMoveTask", *_OF_A_MOVE)
        task = await self._tasks.cancel(source_arn, task_id)
        return {"ApproximateNumberOfMessagesMoved": task.moved}

    async def list_message_move_tasks(self, call: Call, params: Params) -> Result:
        key = _arn_key(params, "SourceArn")
        n = _number(params, "MaxResults", MOVE_TASKS_LISTED_MAX, 1)
        source = await self._queue(call, key, "SourceArn", "ListMessageMoveTasks", "GetQueueAttributes")
        return {"Results": [_shown(task) for task in await self._tasks.newest(source.arn, n)]}

    async def _queue(self, call: Call, key: QueueKey, name: str, *actions: str) -> QueueView:
        """The queue, if the caller may do all of `actions` there."""
        try:
            for action in actions:
                view = await self._access.queue_by_key(call, key, action)
        except RequestError as error:
            if error.code != "QueueDoesNotExist":
                raise
            text = f"The resource that you specified for the {name} parameter doesn't exist."
            raise RequestError("ResourceNotFoundException", text) from None
        return view


def _refused(text: str) -> RequestError:
    return RequestError("InvalidParameterValue", text)


def _arn_key(params: Params, name: str) -> QueueKey:
    if name not in params:
        raise missing(name)
    key = key_of_arn(params[name])
    if key is None:
        raise _refused(f"You must use this format to specify the {name}: {_ARN_FORM}")
    return key


def _number(params: Params, name: str, most: int, default: int) -> int:
    number: int | None = params.get(name)
    if number is None:
        return default
    if not 1 <= number <= most:
        raise _refused(
            f"Value for parameter {name} is invalid. Reason: You must enter a number that's between 1 and {most}."
        )
    return number


def _check_destination(source: QueueView, destination: QueueView) -> None:
    if destination.fifo != source.fifo:
        raise _refused("Source queue and destination queue must be of the same type.")
    if destination.queue.region != source.queue.region:
        raise _refused("Source queue and destination queue must be of the same region.")


def _shown(task: MoveTask) -> Result:
    shown: Result = {
        "Status": task.status,
        "SourceArn": task.source_arn,
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.to_move,
        "StartedTimestamp": task.started_ms,
    }
    if task.status == "RUNNING":
        shown["TaskHandle"] = task_handle(task)
    if task.destination_arn:
        shown["DestinationArn"] = task.destination_arn
    if task.per_second:
        shown["MaxNumberOfMessagesPerSecond"] = task.per_second
    if task.failure:
        shown["FailureReason"] = task.failure
    return shown
