"""A message move task's record, and the handle by which its owner names it."""

from __future__ import annotations

import binascii
from typing import Literal

import msgspec

from cns_common.errors import RequestError

MoveStatus = Literal["RUNNING", "COMPLETED", "CANCELLING", "CANCELLED", "FAILED"]


class MoveTask(msgspec.Struct, frozen=True, kw_only=True):
    """`version` rises with each change."""

    id: str
    account: str
    source_arn: str
    source_id: str  # a namesake made after the queue's deletion is not emptied
    destination_arn: str = ""  # '': each message goes back to the queue it came from
    per_second: int = 0  # 0: as fast as it goes
    started_ms: int
    to_move: int  # as the source queue counted at the start
    status: MoveStatus = "RUNNING"
    moved: int = 0
    failure: str = ""
    takes: int = 0  # how many workers have taken it up
    version: int = 1

    @property
    def active(self) -> bool:
        return self.status in ("RUNNING", "CANCELLING")


class _Handle(msgspec.Struct, frozen=True):
    """Field order is the order AWS writes them in."""

    taskId: str  # noqa: N815  # the API's name
    sourceArn: str  # noqa: N815  # the name in the JSON text


_decode = msgspec.json.Decoder(_Handle).decode


def task_handle(task: MoveTask) -> str:
    return binascii.b2a_base64(msgspec.json.encode(_Handle(task.id, task.source_arn)), newline=False).decode("ascii")


def read_task_handle(text: str) -> tuple[str, str]:
    """(source ARN, task id)"""
    try:
        handle = _decode(binascii.a2b_base64(text, strict_mode=True))
    except (ValueError, msgspec.DecodeError):  # ValueError: binascii.Error, or text beyond ASCII
        raise RequestError("InvalidParameterValue", "Value for parameter TaskHandle is invalid.") from None
    return handle.sourceArn, handle.taskId
