"""Settle: deletes, sends and changes of jobs in one step. For the account `cns` only, as all extensions are."""

from __future__ import annotations

from typing import Any

from cns_common.aws.call import Call, Params, Result
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cqs.engines.contract import Change, Engine, Entry, QueueRef, RejectedEntry, SentEntry, Settlement
from cqs.internal_queues import internal_key
from cqs.limits import INTERNAL_DELAY_S_MAX, INTERNAL_MESSAGE_BYTES_MAX, VISIBILITY_S_MAX
from cqs.messages.sequence_number import sequence_text
from cqs.messages.validation import invalid, missing
from cqs.queues.cache import QueueCache
from cqs.queues.urls import no_such_queue
from cqs.queues.view import QueueView

ENTRIES_MAX = 1_000
ID_CHARS_MAX = 1_024
"""The longest message id, group and deduplication id."""
_NO_HANDLE = b""
"""Replaces text that is not a receipt handle of the queue: the engine's outcome for it is MALFORMED."""

Member = dict[str, Any]


class SettleOperations:
    def __init__(self, cache: QueueCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock

    async def settle(self, call: Call, params: Params) -> Result:
        deletes: list[Member] = params.get("Deletes") or []
        sends: list[Member] = params.get("Sends") or []
        changes: list[Member] = params.get("Changes") or []
        _check_number(len(deletes) + len(sends) + len(changes))
        views = {name: await self._view(name) for name in {_queue(each) for each in (*deletes, *sends, *changes)}}
        now_ms = self._clock.now_ms()
        settlement = Settlement(
            tuple([_delete(views[each["Queue"]], each) for each in deletes]),
            tuple([_send(views[each["Queue"]], each, now_ms) for each in sends]),
            tuple([_change(views[each["Queue"]], each, now_ms) for each in changes]),
        )
        settled = await _engine(views).settle(settlement, now_ms)
        return {
            "Deletes": [outcome.name for outcome in settled.deletes],
            "Sends": [_sent(answer) for answer in settled.sends],
            "Changes": [outcome.name for outcome in settled.changes],
            "InOrder": [
                {
                    "MessageId": answer.id,
                    "SequenceNumber": sequence_text(answer.sequence),
                    "Duplicate": answer.duplicate,
                }
                for (ref, _), answer in zip(settlement.sends, settled.sends, strict=True)
                if ref.fifo and isinstance(answer, SentEntry)
            ],
        }

    async def _view(self, name: str) -> QueueView:
        view = await self._cache.find(internal_key(name))
        if view is None:
            raise no_such_queue()
        return view


def _check_number(entries: int) -> None:
    if not entries:
        raise RequestError("EmptyBatchRequest", "There should be at least one entry in the request.")
    if entries > ENTRIES_MAX:
        raise RequestError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent {entries}.",
        )


def _engine(views: dict[str, QueueView]) -> Engine:
    """One engine has all internal queues."""
    return next(iter(views.values())).engine


def _queue(member: Member) -> str:
    name: str = member.get("Queue") or ""
    if not name:
        raise missing("Queue")
    return name


def _delete(view: QueueView, member: Member) -> tuple[QueueRef, bytes]:
    return view.ref, _handle(view, member)


def _send(view: QueueView, member: Member, now_ms: int) -> tuple[QueueRef, Entry]:
    body = member.get("Body")
    if body is None:
        raise missing("Body")
    group: str = member.get("Group", "")
    if len(group) > ID_CHARS_MAX:
        raise invalid("Group", group, f"Must be shorter than {ID_CHARS_MAX} characters.")
    delay_ms = _milliseconds("DelayMs", member.get("DelayMs", 0), INTERNAL_DELAY_S_MAX)
    dedup: str = member.get("Dedup", "")
    if len(dedup) > ID_CHARS_MAX:
        raise invalid("Dedup", dedup, f"Must be shorter than {ID_CHARS_MAX} characters.")
    return view.ref, Entry(_id(member), _body(body), now_ms, now_ms + delay_ms, group, dedup)


def _change(view: QueueView, member: Member, now_ms: int) -> tuple[QueueRef, Change]:
    if "VisibleInMs" not in member:
        raise missing("VisibleInMs")
    visible_in_ms = _milliseconds("VisibleInMs", member["VisibleInMs"], VISIBILITY_S_MAX)
    body = _body(member["Body"]) if "Body" in member else None
    return view.ref, Change(_handle(view, member), now_ms + visible_in_ms, body)


def _id(member: Member) -> str:
    message_id: str = member.get("MessageId") or ""
    if not message_id:
        raise missing("MessageId")
    if len(message_id) > ID_CHARS_MAX:
        raise invalid("MessageId", message_id, f"Must be shorter than {ID_CHARS_MAX} characters.")
    return message_id


def _body(body: bytes) -> bytes:
    if len(body) > INTERNAL_MESSAGE_BYTES_MAX:
        raise RequestError(
            "InvalidParameterValue",
            f"One or more parameters are invalid. Reason: Body must be within {INTERNAL_MESSAGE_BYTES_MAX} bytes.",
        )
    return body


def _milliseconds(name: str, value: int, most_s: int) -> int:
    if not 0 <= value <= most_s * 1000:
        raise invalid(name, value, f"Must be >= 0 and <= {most_s * 1000}.")
    return value


def _handle(view: QueueView, member: Member) -> bytes:
    text: str = member.get("ReceiptHandle") or ""
    if not text:
        raise missing("ReceiptHandle")
    try:
        return view.receipts.read(text).handle
    except RequestError:
        return _NO_HANDLE


def _sent(answer: SentEntry | RejectedEntry) -> str:
    return "SENT" if isinstance(answer, SentEntry) else answer.reason.upper()
