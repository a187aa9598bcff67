"""Validates the members of a SendMessage or of a batch entry for the queue they are sent to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cns_common.errors import RequestError
from cns_common.text_size import utf8_bytes
from cqs.limits import DELAY_S_MAX
from cqs.messages.message_attributes import NO_ATTRIBUTES, Attributes, digest, read_attributes, read_system_attributes
from cqs.messages.message_text import encode_text
from cqs.queues.view import QueueView

_ID = re.compile(r"[!-~]{1,128}\Z", re.ASCII)
_WRONG_TYPE = "The request include parameter that is not valid for this queue type."
_Fault = Callable[[str, object, str], RequestError]  # name, value, reason → the error
NO_DEDUPLICATION = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)


class ValidatedMessage(msgspec.Struct, frozen=True):
    """A message that the queue accepts."""

    text: str
    md5: str = ""
    delay_ms: int | None = None  # None: the queue's delay
    group: str = ""
    dedup: str = ""
    attributes: Attributes = NO_ATTRIBUTES
    trace: str = ""
    system_md5: str = ""


def validate_message(
    view: QueueView, members: Mapping[str, Any], trace: str = "", *, in_batch: bool = False
) -> ValidatedMessage:
    """The message in a request's `members`. `trace` is the request's trace header. Raises RequestError.

    AWS has other words for some errors of an entry `in_batch`.
    """
    text = members.get("MessageBody")
    if not text:
        raise missing("MessageBody")
    encoded = encode_text(text)
    size = len(encoded)
    attributes = NO_ATTRIBUTES
    if named := members.get("MessageAttributes"):
        attributes = read_attributes(named)
        size += attributes.size
    if size > view.bytes_max:
        judgement = "cannot be validated" if in_batch else "are invalid"
        raise RequestError(
            "InvalidParameterValue",
            f"One or more parameters {judgement}. Reason: Message must be shorter than {view.bytes_max} bytes.",
        )
    system_md5 = ""
    if system := members.get("MessageSystemAttributes"):
        system_attributes = read_system_attributes(system)
        system_md5 = digest(system_attributes)
        trace = system_attributes[0].text
    delay_ms = _delay_ms(view, members.get("DelaySeconds"))
    group, dedup = _ids(view, members, encoded, _invalid_in_batch if in_batch else invalid)
    md5 = hashlib.md5(encoded).hexdigest()
    return ValidatedMessage(text, md5, delay_ms, group, dedup, attributes, trace, system_md5)


def counted_bytes(members: Mapping[str, Any]) -> int:
    """The bytes of an entry that count for the size of a batch, even if the entry is not valid."""
    size = utf8_bytes(members.get("MessageBody") or "")
    for name, member in (members.get("MessageAttributes") or {}).items():
        texts = (name, member.get("DataType") or "", member.get("StringValue") or "")
        size += sum(utf8_bytes(text) for text in texts) + len(member.get("BinaryValue") or b"")
    return size


def missing(name: str) -> RequestError:
    return RequestError("MissingParameter", f"The request must contain the parameter {name}.")


def invalid(name: str, value: object, reason: str) -> RequestError:
    return RequestError("InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def wrong_queue_type(name: str, value: object) -> RequestError:
    return invalid(name, value, _WRONG_TYPE)


def _invalid_in_batch(_name: str, _value: object, reason: str) -> RequestError:
    return RequestError("InvalidParameterValue", reason.removesuffix("."))


def check_id(name: str, value: str, fault: _Fault = invalid) -> str:
    """Validate a message group id, deduplication id or receive attempt id."""
    if not _ID.match(value):
        raise fault(
            name, value, f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        )
    return value


def _delay_ms(view: QueueView, delay_s: int | None) -> int | None:
    if delay_s is None:
        return None
    if not 0 <= delay_s <= DELAY_S_MAX:
        raise invalid("DelaySeconds", delay_s, f"DelaySeconds must be >= 0 and <= {DELAY_S_MAX}.")
    if delay_s * 1000 > view.delay_ms_max:
        delay_s_max = view.delay_ms_max // 1000
        raise invalid("DelaySeconds", delay_s, f"The queue's engine delays messages by at most {delay_s_max} seconds.")
    if not view.fifo:
        return delay_s * 1000
    if delay_s:
        raise wrong_queue_type("DelaySeconds", delay_s)
    return None


def _ids(view: QueueView, members: Mapping[str, Any], encoded: bytes, fault: _Fault) -> tuple[str, str]:
    group: str | None = members.get("MessageGroupId")
    dedup: str | None = members.get("MessageDeduplicationId")
    if not view.fifo:
        if dedup is not None:
            raise fault("MessageDeduplicationId", dedup, _WRONG_TYPE)
        return ("" if group is None else check_id("MessageGroupId", group, fault)), ""
    if group is None:
        raise missing("MessageGroupId")
    check_id("MessageGroupId", group, fault)
    if dedup is not None:
        return group, check_id("MessageDeduplicationId", dedup, fault)
    if not view.dedup_by_content:
        raise RequestError("InvalidParameterValue", NO_DEDUPLICATION)
    return group, hashlib.sha256(encoded).hexdigest()
