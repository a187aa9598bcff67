"""Publish, PublishBatch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cns.errors import invalid_parameter, missing_parameter, null_member, required_text
from cns.limits import BATCH_ENTRIES_MAX, BATCH_ID_CHARS_MAX
from cns.publishing.publish import Publisher
from cns.publishing.publish_direct import DirectPublisher
from cns.publishing.requests import BatchEntry, PublishRequest, PublishResult, read_entry
from cns.push.arns import is_endpoint
from cns_common.aws.call import Call, Params, Result
from cns_common.errors import RequestError

_TARGETS = ("TopicArn", "TargetArn", "PhoneNumber")
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]+")
_ENTRIES = "PublishBatchRequestEntries"
_ENTRIES_PATH = "publishBatchRequestEntries"


class PublishOperations:
    def __init__(self, publisher: Publisher, direct: DirectPublisher) -> None:
        self._publisher = publisher
        self._direct = direct

    async def publish(self, call: Call, params: Params) -> Result:
        if "Message" not in params:
            raise null_member("message")
        parameter = _target(params)
        request = _publish_request(params)
        target = params[parameter]
        if parameter == "PhoneNumber":
            return _response(await self._direct.to_phone(call, target, request))
        if parameter == "TargetArn" and is_endpoint(target):  # TargetArn may also be a topic's ARN
            return _response(await self._direct.to_endpoint(call, target, request))
        return _response(await self._publisher.publish(call, target, request, parameter))

    async def publish_batch(self, call: Call, params: Params) -> Result:
        members = _entries(params)
        view = await self._publisher.find_topic(call, required_text(params, "TopicArn"))
        _check_ids(members)
        entries = [_entry(number, entry) for number, entry in enumerate(members, 1)]
        results = await self._publisher.publish_all(call, view, entries)
        answers = list(zip([entry["Id"] for entry in members], results, strict=True))
        return {
            "Successful": [
                {"Id": entry_id, **_response(result)}
                for entry_id, result in answers
                if isinstance(result, PublishResult)
            ],
            "Failed": [
                {"Id": entry_id, "Code": result.code, "Message": result.message, "SenderFault": True}
                for entry_id, result in answers
                if isinstance(result, RequestError)
            ],
        }


def _response(published: PublishResult) -> Result:
    sequence_number = {"SequenceNumber": published.sequence_number} if published.sequence_number else {}
    return {"MessageId": published.id, **sequence_number}


def _target(params: Params) -> str:
    """The name of the one parameter that holds the destination."""
    targets = [name for name in _TARGETS if name in params]
    if not targets:
        raise missing_parameter("TopicArn or TargetArn")
    if len(targets) > 1:
        raise invalid_parameter(f"{' or '.join(targets)} Reason: only one of them can be specified")
    return targets[0]


def _publish_request(members: Mapping[str, Any]) -> PublishRequest:
    return PublishRequest(
        message=members["Message"],
        subject=members.get("Subject"),
        structure=members.get("MessageStructure"),
        attributes=members.get("MessageAttributes") or {},
        group_id=members.get("MessageGroupId"),
        deduplication_id=members.get("MessageDeduplicationId"),
    )


def _entries(params: Params) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = params.get(_ENTRIES) or []
    if not entries:
        raise null_member(_ENTRIES_PATH)
    if len(entries) > BATCH_ENTRIES_MAX:
        raise RequestError("TooManyEntriesInBatchRequest", "The batch request contains more entries than permissible.")
    for number, entry in enumerate(entries, 1):
        for member in ("Id", "Message"):
            if member not in entry:
                raise null_member(f"{_ENTRIES_PATH}.{number}.member.{member.lower()}")
    return entries


def _check_ids(entries: list[dict[str, Any]]) -> None:
    ids: list[str] = [entry["Id"] for entry in entries]
    if len(set(ids)) != len(ids):
        raise RequestError("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
    for entry_id in ids:
        if len(entry_id) > BATCH_ID_CHARS_MAX:
            raise RequestError(
                "InvalidBatchEntryId", f"The Id of a batch entry in the batch request is too long: {entry_id}"
            )
        if not _ENTRY_ID.fullmatch(entry_id):
            raise RequestError(
                "InvalidBatchEntryId",
                f"The Id of a batch entry in the batch request contains an impermissible character: {entry_id}",
            )


def _entry(number: int, members: Mapping[str, Any]) -> BatchEntry:
    return read_entry(_publish_request(members), f"{_ENTRIES_PATH}.{number}.member.messageAttributes")
