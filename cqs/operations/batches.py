"""SendMessageBatch, DeleteMessageBatch, ChangeMessageVisibilityBatch.

Errors of the whole request are raised first. After that each entry succeeds or fails on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cns_common.aws.call import Call, Params, Result
from cns_common.aws.protocol.faults import wire_code
from cns_common.errors import RequestError
from cqs.authorization import QueueAccess
from cqs.limits import BATCH_BYTES_MAX, BATCH_ENTRIES_MAX
from cqs.messages.delete_and_visibility import HandleErrors, InFlightMessages, VisibilityChange
from cqs.messages.receipt_handle import UselessHandle
from cqs.messages.send import MessageSender
from cqs.messages.validation import (
    NO_DEDUPLICATION,
    ValidatedMessage,
    counted_bytes,
    missing,
    validate_message,
    wrong_queue_type,
)
from cqs.operations.messages import send_result, sender_of
from cqs.queues.view import QueueView

Entries = list[dict[str, Any]]

_SEND_ENTRY = "SendMessageBatchRequestEntry"
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}\Z", re.ASCII)


class BatchOperations:
    def __init__(self, access: QueueAccess, sender: MessageSender, in_flight: InFlightMessages) -> None:
        self._access = access
        self._sender = sender
        self._in_flight = in_flight

    async def send_message_batch(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "SendMessage")
        entries = _entries(params, _SEND_ENTRY, lambda entry: _check_fifo(view, entry))
        _check_size(entries)
        failed: list[Result] = []
        valid: dict[str, ValidatedMessage] = {}
        for number, entry in enumerate(entries, 1):
            try:
                valid[entry["Id"]] = _validate(view, number, entry, call.trace_header)
            except RequestError as error:
                failed.append(_failure(entry["Id"], error))
        accepted = await self._sender.send(view, tuple(valid.values()), sender_of(call)) if valid else []
        successful = [
            {"Id": entry_id, **send_result(message, one)}
            for (entry_id, message), one in zip(valid.items(), accepted, strict=True)
        ]
        return {"Successful": successful, "Failed": failed}

    async def delete_message_batch(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "DeleteMessage")
        entries = _entries(params, "DeleteMessageBatchRequestEntry")
        handles = [entry.get("ReceiptHandle") or "" for entry in entries]
        return _outcome(entries, await self._in_flight.delete(view, handles))

    async def change_message_visibility_batch(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "ChangeMessageVisibility")
        entries = _entries(params, "ChangeMessageVisibilityBatchRequestEntry", _check_timeout)
        changes = [VisibilityChange(entry.get("ReceiptHandle") or "", entry["VisibilityTimeout"]) for entry in entries]
        return _outcome(entries, await self._in_flight.change_visibility(view, changes))


def _entries(params: Params, noun: str, check: Callable[[dict[str, Any]], None] | None = None) -> Entries:
    """The entries of a batch. Raises RequestError for the whole request; so may `check`, for any entry."""
    entries: Entries = params.get("Entries") or []
    if not entries:
        raise RequestError("EmptyBatchRequest", f"There should be at least one {noun} in the request.")
    if len(entries) > BATCH_ENTRIES_MAX:
        raise RequestError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {BATCH_ENTRIES_MAX}. You have sent {len(entries)}.",
        )
    seen: set[str] = set()
    for number, entry in enumerate(entries, 1):
        entry_id: str | None = entry.get("Id")
        if entry_id is None:
            raise missing(f"{noun}.{number}.Id")
        if not _ENTRY_ID.match(entry_id):
            raise RequestError(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long.",
            )
        if check is not None:
            check(entry)
        if entry_id in seen:
            raise RequestError("BatchEntryIdsNotDistinct", f"Id {entry_id} repeated.")
        seen.add(entry_id)
    return entries


def _check_fifo(view: QueueView, entry: dict[str, Any]) -> None:
    """The errors of one entry for which AWS refuses the whole batch."""
    if not view.fifo:
        return
    if "MessageDeduplicationId" not in entry and not view.dedup_by_content:
        raise RequestError("InvalidParameterValue", NO_DEDUPLICATION)
    if "MessageGroupId" not in entry:
        raise RequestError("InvalidParameterValue", "The request must contain the parameter MessageGroupId.")
    if entry.get("DelaySeconds"):
        raise wrong_queue_type("DelaySeconds", entry["DelaySeconds"])


def _check_timeout(entry: dict[str, Any]) -> None:
    """The service model marks it optional, but SQS documents no default."""
    if "VisibilityTimeout" not in entry:
        raise missing("VisibilityTimeout")


def _check_size(entries: Entries) -> None:
    size = sum(counted_bytes(entry) for entry in entries)
    if size > BATCH_BYTES_MAX:
        raise RequestError(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {BATCH_BYTES_MAX} bytes. You have sent {size} bytes.",
        )


def _validate(view: QueueView, number: int, entry: dict[str, Any], trace: str) -> ValidatedMessage:
    if not entry.get("MessageBody"):
        raise RequestError("EmptyValue", f"No Value Found for {_SEND_ENTRY}.{number}.MessageBody.")
    return validate_message(view, entry, trace, in_batch=True)


def _outcome(entries: Entries, answers: HandleErrors) -> Result:
    pairs = list(zip(entries, answers, strict=True))
    return {
        "Successful": [{"Id": entry["Id"]} for entry, fault in pairs if fault is None],
        "Failed": [
            _failure(entry["Id"], fault.in_batch if isinstance(fault, UselessHandle) else fault)
            for entry, fault in pairs
            if fault is not None
        ],
    }


def _failure(entry_id: str, error: RequestError) -> Result:
    text = error.message.encode(errors="replace").decode()  # it may quote text that no response can carry
    return {"Id": entry_id, "SenderFault": True, "Code": wire_code("sqs", error.code), "Message": text}
