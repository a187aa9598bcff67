"""Cursors of engines as clients hold them: signed, so that an engine reads only cursors that it wrote for the queue."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from cns_server.rest.problems import Problem

_PURPOSE = b"cns-cursor"
_MAC_BYTES = 8


class Cursors:
    def __init__(self, receipt_key: bytes) -> None:
        self._key = hashlib.blake2b(key=receipt_key, person=_PURPOSE, digest_size=32).digest()

    def write(self, queue_id: str, cursor: str) -> str | None:
        """The text of a cursor; None at the end of the queue."""
        if not cursor:
            return None
        content = cursor.encode()
        return base64.urlsafe_b64encode(self._mac(queue_id, content) + content).decode("ascii")

    def read(self, queue_id: str, text: str) -> str:
        """The engine's cursor. Raises Problem for text that was not written for this queue."""
        if not text:
            return ""
        try:
            sealed = base64.b64decode(text, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            sealed = b""
        content = sealed[_MAC_BYTES:]
        if not content or not hmac.compare_digest(self._mac(queue_id, content), sealed[:_MAC_BYTES]):
            raise Problem(400, "InvalidRequest", "`after` is not the `next` of an earlier page of this queue.")
        return content.decode()

    def _mac(self, queue_id: str, content: bytes) -> bytes:
        return hashlib.blake2b(queue_id.encode() + b"\0" + content, key=self._key, digest_size=_MAC_BYTES).digest()
