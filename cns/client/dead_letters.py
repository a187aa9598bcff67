"""Dead letters: which queues have them, why, and back with them."""

from __future__ import annotations

from urllib.parse import quote

from cns.client.requests import ApiRequest, given
from cns.client.values import QueueNames
from cns.rest.deliveries import DeadLetter, DeadLetterDepth, DeadLetterQueue, DeadLetterQueues, DeadLetters
from cns.rest.models import Redrive, RedriveList

__all__ = [
    "DeadLetter",
    "DeadLetterDepth",
    "DeadLetterQueue",
    "DeadLetterQueues",
    "DeadLetterRequests",
    "DeadLetters",
    "Redrive",
    "Redrives",
]

Redrives = RedriveList


class DeadLetterRequests:
    def __init__(self, account: str) -> None:
        self._account = f"/accounts/{account}"

    def _queue(self, queue: str, rest: str) -> str:
        return f"{self._account}/queues/{quote(queue, safe='')}{rest}"

    def queues(self, after: str) -> ApiRequest[DeadLetterQueues]:
        return ApiRequest("GET", f"{self._account}/deadLetterQueues", DeadLetterQueues, given(after=after))

    def letters(self, queue: str, after: str, limit: int) -> ApiRequest[DeadLetters]:
        return ApiRequest("GET", self._queue(queue, "/deadLetters"), DeadLetters, given(after=after, limit=limit))

    def sources(self, queue: str) -> ApiRequest[QueueNames]:
        return ApiRequest("GET", self._queue(queue, "/deadLetterSources"), QueueNames)

    def redrives(self, queue: str) -> ApiRequest[Redrives]:
        return ApiRequest("GET", self._queue(queue, "/redrives"), Redrives)

    def redrive(self, queue: str, destination_arn: str, messages_per_second: int | None) -> ApiRequest[Redrive]:
        body = given(destinationArn=destination_arn, messagesPerSecond=messages_per_second)
        return ApiRequest("POST", self._queue(queue, "/redrives"), Redrive, None, body)

    def cancel_redrive(self, queue: str, handle: str) -> ApiRequest[Redrive]:
        return ApiRequest("DELETE", self._queue(queue, f"/redrives/{quote(handle, safe='')}"), Redrive)
