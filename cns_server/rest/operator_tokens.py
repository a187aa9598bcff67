"""Operator tokens: with one, an operator of the service administrates accounts. `cns operator token` makes one from the
master key."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import NamedTuple

from cns_server.rest.problems import Problem

OPERATOR_PREFIX = "operator."
KEY_BYTES = 32
_PURPOSE = b"cns-operator"


def operator_key(receipt_key: bytes) -> bytes:
    """The signing key, derived from the store's receipt key, which only processes of the store have."""
    return hashlib.blake2b(key=receipt_key, person=_PURPOSE, digest_size=KEY_BYTES).digest()


class OperatorToken(NamedTuple):
    expires_s: int
    """Seconds since the epoch."""
    session_id: str = ""
    """The session of a token that a sign-in made."""

    def signed(self, key: bytes) -> str:
        """`operator.<expiry>.<signature>`, of a session `operator.<expiry>-<id>.<signature>`."""
        content = f"{self.expires_s}-{self.session_id}" if self.session_id else str(self.expires_s)
        return f"{OPERATOR_PREFIX}{content}.{_signature(key, content)}"


def verify_operator_token(token: str, key: bytes, now_ms: int) -> OperatorToken:
    """Raises Problem 401 for a token that is not valid."""
    content, _, signature = token.removeprefix(OPERATOR_PREFIX).partition(".")
    expires, _, session_id = content.partition("-")
    valid = token.isascii() and expires.isdigit() and len(expires) <= 12
    if not valid or not hmac.compare_digest(_signature(key, content), signature):
        raise Problem(401, "InvalidToken", "The operator token is not valid.")
    if now_ms >= int(expires) * 1000:
        raise Problem(401, "ExpiredToken", "The operator token has expired: `cns operator token` makes another.")
    return OperatorToken(int(expires), session_id)


def _signature(key: bytes, content: str) -> str:
    mac = hmac.digest(key, content.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode("ascii")
