"""Queue names and queue keys."""

from __future__ import annotations

import re

from cns_common.errors import RequestError
from cns_common.store_keys import Key
from cqs.limits import FIFO_SUFFIX, QUEUE_NAME_CHARS_MAX

QueueKey = tuple[Key, Key, Key]
"""(account, region, name)"""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z", re.ASCII)
_NOT_A_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
_NOT_A_FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo "
    "suffix and be 1 to 80 in length."
)


def is_fifo(name: str) -> bool:
    return name.endswith(FIFO_SUFFIX)


def check_queue_name(name: str | None, *, fifo: bool) -> str:
    """Validate the name of a new queue. `fifo` is the value of its FifoQueue attribute."""
    if name is None:
        raise missing_queue_name()
    if not name:
        raise RequestError("InvalidParameterValue", "Queue name cannot be empty")
    stem = name.removesuffix(FIFO_SUFFIX) if fifo else name
    if len(name) > QUEUE_NAME_CHARS_MAX or not _PLAIN.match(stem):
        raise RequestError("InvalidParameterValue", _NOT_A_FIFO_NAME if fifo else _NOT_A_NAME)
    if fifo and stem == name:
        raise RequestError("InvalidParameterValue", _NOT_A_FIFO_NAME)
    return name


def is_queue_name(name: str) -> bool:
    return len(name) <= QUEUE_NAME_CHARS_MAX and _PLAIN.match(name.removesuffix(FIFO_SUFFIX)) is not None


def missing_queue_name() -> RequestError:
    return RequestError(
        "InvalidParameterValue", "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
    )
