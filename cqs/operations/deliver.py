"""Deliver: notifications into tenants' queues. For the account `cns` alone, as all extensions are."""

from __future__ import annotations

import asyncio
from typing import Any

from common.aws.call import Call, Params, Result
from common.errors import OutcomeUnknown, RequestError, StoreUnavailable
from cqs.drafts import missing
from cqs.on_behalf import OnBehalf

ENTRIES_MAX = 100
_OF_SEND_MESSAGE = ("MessageBody", "MessageAttributes", "MessageGroupId", "MessageDeduplicationId")

Member = dict[str, Any]


class DeliverOperations:
    def __init__(self, on_behalf: OnBehalf) -> None:
        self._on_behalf = on_behalf

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
        enforced = call.policies_enforced
        return {"Results": await asyncio.gather(*[self._send(entry, enforced=enforced) for entry in entries])}

    async def _send(self, entry: Member, *, enforced: bool) -> Result:
        """Each stands for itself, also in what the store does to it."""
        try:
            message_id = await self._on_behalf.send(
                entry["QueueArn"],
                {name: entry[name] for name in _OF_SEND_MESSAGE if name in entry},
                topic_arn=entry["TopicArn"],
                trace_header=entry.get("TraceHeader", ""),
                enforced=enforced,
            )
        except RequestError as refusal:
            return {"Code": refusal.code, "Message": refusal.message.encode(errors="replace").decode()}
        except StoreUnavailable as error:
            return {"Code": "ServiceUnavailable", "Message": str(error)}
        except OutcomeUnknown as error:
            return {"Code": "InternalError", "Message": str(error)}
        return {"MessageId": message_id}
