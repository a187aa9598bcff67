"""Receipt handles: opaque text that names one delivery of one message of one queue.

Inside are the queue (shortened), when the message was received, and the engine's own handle. The checksum tells text
that was never issued from a handle of another queue; it is no secret, since whoever may name the queue may use any
handle of it.
"""

from __future__ import annotations

import binascii
import hashlib
from typing import NamedTuple

from common.errors import RequestError

CHARS_MAX = 1_024
_VERSION = b"\x01"
_QUEUE_BYTES = 6
_TIME_BYTES = 6
_CHECK_BYTES = 4
_PREFIX_BYTES = len(_VERSION) + _QUEUE_BYTES
_HEAD_BYTES = _PREFIX_BYTES + _TIME_BYTES


class Receipt(NamedTuple):
    received_at_ms: int
    handle: bytes  # the engine's


def handle_prefix(queue_id: str) -> bytes:
    """What all handles of a queue begin with. A tenant's `queue_id` is random hexadecimal, an internal one is not."""
    if "/" in queue_id:
        return _VERSION + hashlib.sha256(queue_id.encode()).digest()[:_QUEUE_BYTES]
    return _VERSION + bytes.fromhex(queue_id[: 2 * _QUEUE_BYTES])


def make_handle(prefix: bytes, received_at_ms: int, handle: bytes) -> str:
    content = prefix + received_at_ms.to_bytes(_TIME_BYTES, "big") + handle
    sealed = content + binascii.crc32(content).to_bytes(_CHECK_BYTES, "big")
    return binascii.b2a_base64(sealed, newline=False).decode("ascii")


def read_handle(prefix: bytes, text: str) -> Receipt:
    """The receipt in `text`, which must be of the queue that `prefix` belongs to."""
    if len(text) > CHARS_MAX or len(text) % 4:  # the decoder lets one sign too many pass
        raise not_a_handle(text)
    try:
        sealed = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # binascii.Error, or text beyond ASCII
        raise not_a_handle(text) from None
    content = sealed[:-_CHECK_BYTES]
    if (
        len(content) <= _HEAD_BYTES
        or not content.startswith(_VERSION)
        or binascii.crc32(content) != int.from_bytes(sealed[-_CHECK_BYTES:], "big")
    ):
        raise not_a_handle(text)
    if not content.startswith(prefix):
        raise RequestError("ReceiptHandleIsInvalid", f'The receipt handle "{text}" is not valid for this queue.')
    return Receipt(int.from_bytes(content[_PREFIX_BYTES:_HEAD_BYTES], "big"), content[_HEAD_BYTES:])


def not_a_handle(text: str) -> RequestError:
    return RequestError("ReceiptHandleIsInvalid", f'The input receipt handle "{text}" is not a valid receipt handle.')


def expired_handle(text: str) -> RequestError:
    return RequestError(
        "InvalidParameterValue",
        f"Value {text} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
    )


def unavailable_message(text: str) -> RequestError:
    return RequestError(
        "InvalidParameterValue",
        f"Value {text} for parameter ReceiptHandle is invalid. "
        "Reason: Message does not exist or is not available for visibility timeout change.",
    )
