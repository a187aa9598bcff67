"""Receipt handles: opaque text that names one delivery of one message of one queue.

A handle has a version, the queue (shortened), the time of the receive, the engine's own handle, and a keyed MAC of
these. Only processes of the store have the key: a client cannot forge a handle or derive one from another, and so can
delete or hide only messages that it received. Version 3, of audited queues, also has the message's id and group: the
event of its delete needs them.

Version 1 had a checksum instead of the MAC. Its handles are refused, and their messages are received again after their
visibility timeouts.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import uuid
from typing import NamedTuple

from cns_common.errors import RequestError

CHARS_MAX = 1_024
KEY_BYTES = 32
MAC_BYTES = 8
_VERSION = b"\x02"
_NAMED_VERSION = b"\x03"
_ID_BYTES = 16
_QUEUE_BYTES = 6
_TIME_BYTES = 6
_PREFIX_BYTES = len(_VERSION) + _QUEUE_BYTES
_HEAD_BYTES = _PREFIX_BYTES + _TIME_BYTES


class Receipt(NamedTuple):
    received_at_ms: int
    handle: bytes  # of the engine
    message_id: str = ""  # of the handle of an audited queue
    group: str = ""


class ReceiptHandles:
    """Makes and reads the handles of one queue."""

    __slots__ = ("_keyed", "_prefix", "_queue")

    def __init__(self, key: bytes, queue_id: str) -> None:
        """`key` is the store's, of KEY_BYTES. The `queue_id` of a tenant's queue is random hexadecimal, that of an
        internal queue is not."""
        self._keyed = hashlib.blake2b(key=key, digest_size=MAC_BYTES)  # copying it costs a third of a new one
        self._queue = _shortened(queue_id)
        self._prefix = _VERSION + self._queue

    def make(self, received_at_ms: int, handle: bytes) -> str:
        content = self._prefix + received_at_ms.to_bytes(_TIME_BYTES, "big") + handle
        return binascii.b2a_base64(content + self._mac(content), newline=False).decode("ascii")

    def make_named(self, received_at_ms: int, handle: bytes, message_id: str, group: str) -> str:
        """A handle with the message's id, a UUID, and its group of at most 128 characters."""
        named = uuid.UUID(message_id).bytes + bytes([len(group)]) + group.encode()
        content = _NAMED_VERSION + self._queue + received_at_ms.to_bytes(_TIME_BYTES, "big") + named + handle
        return binascii.b2a_base64(content + self._mac(content), newline=False).decode("ascii")

    def read(self, text: str) -> Receipt:
        """The receipt in `text`. Raises RequestError if it is not a handle, or one of another queue."""
        if len(text) > CHARS_MAX or len(text) % 4:  # the decoder accepts one character too many
            raise not_a_handle(text)
        try:
            sealed = binascii.a2b_base64(text, strict_mode=True)
        except ValueError:  # binascii.Error, or non-ASCII text
            raise not_a_handle(text) from None
        content = sealed[:-MAC_BYTES]
        if (
            len(content) <= _HEAD_BYTES
            or not content.startswith((_VERSION, _NAMED_VERSION))
            or not hmac.compare_digest(self._mac(content), sealed[-MAC_BYTES:])
        ):
            raise not_a_handle(text)
        if not content.startswith(self._queue, len(_VERSION)):
            raise RequestError("ReceiptHandleIsInvalid", f'The receipt handle "{text}" is not valid for this queue.')
        received_at_ms = int.from_bytes(content[_PREFIX_BYTES:_HEAD_BYTES], "big")
        if content.startswith(_VERSION):
            return Receipt(received_at_ms, content[_HEAD_BYTES:])
        return _read_named(received_at_ms, content[_HEAD_BYTES:])

    def _mac(self, content: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(content)
        return keyed.digest()


def _read_named(received_at_ms: int, named: bytes) -> Receipt:
    group_at = _ID_BYTES + 1
    handle_at = group_at + named[_ID_BYTES]
    message_id = str(uuid.UUID(bytes=named[:_ID_BYTES]))
    return Receipt(received_at_ms, named[handle_at:], message_id, named[group_at:handle_at].decode())


def _shortened(queue_id: str) -> bytes:
    if "/" in queue_id:
        return hashlib.sha256(queue_id.encode()).digest()[:_QUEUE_BYTES]
    return bytes.fromhex(queue_id[: 2 * _QUEUE_BYTES])


def not_a_handle(text: str) -> RequestError:
    return RequestError("ReceiptHandleIsInvalid", f'The input receipt handle "{text}" is not a valid receipt handle.')


class UselessHandle(RequestError):
    """A handle that this queue gave out, but that no longer works. AWS answers it in other words in a batch."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(
            "InvalidParameterValue", f"Value {text} for parameter ReceiptHandle is invalid. Reason: {reason}."
        )
        self.in_batch = RequestError("ReceiptHandleIsInvalid", reason)


def expired_handle(text: str) -> RequestError:
    return UselessHandle(text, "The receipt handle has expired")


def unavailable_message(text: str) -> RequestError:
    return UselessHandle(text, "Message does not exist or is not available for visibility timeout change")
