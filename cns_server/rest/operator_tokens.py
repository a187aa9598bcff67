"""Operator tokens: with one, an operator of the service administrates accounts. `cns operator token` makes one from the
master key."""

from __future__ import annotations

import base64
import hashlib
import hmac

from cns_server.rest.problems import Problem

OPERATOR_PREFIX = "operator."
KEY_BYTES = 32
_PURPOSE = b"cns-operator"


def operator_key(receipt_key: bytes) -> bytes:
    """The signing key, derived from the store's receipt key, which only processes of the store have."""
    return hashlib.blake2b(key=receipt_key, person=_PURPOSE, digest_size=KEY_BYTES).digest()


def make_operator_token(key: bytes, expires_s: int) -> str:
    """`operator.<expiry>.<signature>`, valid until `expires_s` (seconds since the epoch)."""
    return f"{OPERATOR_PREFIX}{expires_s}.{_signature(key, expires_s)}"


def verify_operator_token(token: str, key: bytes, now_ms: int) -> None:
    """Raises Problem 401 for a token that is not valid."""
    expires, _, signature = token.removeprefix(OPERATOR_PREFIX).partition(".")
    valid = expires.isascii() and expires.isdigit() and len(expires) <= 12 and signature.isascii()
    if not valid or not hmac.compare_digest(_signature(key, int(expires)), signature):
        raise Problem(401, "InvalidToken", "The operator token is not valid.")
    if now_ms >= int(expires) * 1000:
        raise Problem(401, "ExpiredToken", "The operator token has expired: `cns operator token` makes another.")


def _signature(key: bytes, expires_s: int) -> str:
    mac = hmac.digest(key, str(expires_s).encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode("ascii")
