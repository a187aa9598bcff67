"""Deliver: notifications to tenants' queues. For the account `cns` only, as all extensions are."""

from __future__ import annotations

import asyncio
from typing import Any

from cns_common.aws.call import Call, Params, Result
from cns_common.errors import OutcomeUnknown, RequestError, StoreUnavailable
from cqs.messages.validation import missing
from cqs.topic_sender import TopicMessage, TopicSender

ENTRIES_MAX = 100
_OF_SEND_MESSAGE = ("MessageBody", "MessageAttributes", "MessageGroupId", "MessageDeduplicationId")

Member = dict[str, Any]


class DeliverOperations:
    def __init__(self, sender: TopicSender) -> None:
        self._sender = sender

    async def deliver(self, call: Call, params: Params) -> Result:
        entries: list[Member] = params.get("Entries") or []
        if not entries:
            raise RequestError("EmptyBatchRequest", "There should be at least one entry in the request.")
        if len(entries) > ENTRIES_MAX:
            raise RequestError(
                "TooManyEntriesInBatchRequest",
                f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent {len(entries)}.",
            )
        for name in ("QueueArn", "TopicArn"):
            if not all(entry.get(name) for entry in entries):
                raise missing(name)
        routes: dict[tuple[str, str], list[int]] = {}
        for position, entry in enumerate(entries):
            routes.setdefault((entry["QueueArn"], entry["TopicArn"]), []).append(position)
        enforced = call.policies_enforced
        sent = await asyncio.gather(
            *[
                self._send(*route, [entries[position] for position in positions], enforced=enforced)
                for route, positions in routes.items()
            ]
        )
        results: list[Result] = [{} for _ in entries]
        for positions, answers in zip(routes.values(), sent, strict=True):
            for position, answer in zip(positions, answers, strict=True):
                results[position] = answer
        return {"Results": results}

    async def _send(self, queue_arn: str, topic_arn: str, entries: list[Member], *, enforced: bool) -> list[Result]:
        """Send one topic's messages to one queue, in order and in one engine call."""
        messages = [
            TopicMessage(
                {name: entry[name] for name in _OF_SEND_MESSAGE if name in entry}, entry.get("TraceHeader", "")
            )
            for entry in entries
        ]
        try:
            sent = await self._sender.send(queue_arn, messages, topic_arn=topic_arn, enforced=enforced)
        except RequestError as refusal:
            return [_refused(refusal) for _ in entries]
        except StoreUnavailable as error:
            return [{"Code": "ServiceUnavailable", "Message": str(error)} for _ in entries]
        except OutcomeUnknown as error:
            return [{"Code": "InternalError", "Message": str(error)} for _ in entries]
        return [{"MessageId": each} if isinstance(each, str) else _refused(each) for each in sent]


def _refused(refusal: RequestError) -> Result:
    return {"Code": refusal.code, "Message": refusal.message.encode(errors="replace").decode()}
