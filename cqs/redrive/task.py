"""The record of a message move task, and its task handle."""

from __future__ import annotations

import binascii
from typing import Literal

import msgspec

from cns_common.errors import RequestError
from cns_common.store_keys import Key

TASK_ID_CHARS_MAX = 36  # a UUID

MoveStatus = Literal["RUNNING", "COMPLETED", "CANCELLING", "CANCELLED", "FAILED"]


class MoveTask(msgspec.Struct, frozen=True, kw_only=True):
    """`version` rises with each change."""

    id: Key
    account: Key
    source_arn: Key
    source_id: str  # another queue of the same name must not be emptied
    destination_arn: str = ""  # '': each message returns to the queue it came from
    per_second: int = 0  # 0: unlimited
    started_ms: int
    to_move: int  # the source queue's count at the start
    status: MoveStatus = "RUNNING"
    moved: int = 0
    failure: str = ""
    takes: int = 0  # workers that have run the task
    version: int = 1

    @property
    def active(self) -> bool:
        return self.status in ("RUNNING", "CANCELLING")


class _Handle(msgspec.Struct, frozen=True):
    """The fields are in AWS's order."""

    taskId: str  # noqa: N815  # the name in the JSON text
    sourceArn: str  # noqa: N815  # the name in the JSON text


_decode = msgspec.json.Decoder(_Handle).decode


def task_handle(task: MoveTask) -> str:
    return binascii.b2a_base64(msgspec.json.encode(_Handle(task.id, task.source_arn)), newline=False).decode("ascii")


def read_task_handle(text: str) -> tuple[str, str]:
    """(source ARN, task id)"""
    try:
        handle = _decode(binascii.a2b_base64(text, strict_mode=True))
    except (ValueError, msgspec.DecodeError):  # ValueError: binascii.Error, or non-ASCII text
        raise _not_a_handle() from None
    if not 0 < len(handle.taskId) <= TASK_ID_CHARS_MAX:
        raise _not_a_handle()
    return handle.sourceArn, handle.taskId


def _not_a_handle() -> RequestError:
    return RequestError("InvalidParameterValue", "Value for parameter TaskHandle is invalid.")
