"""Tokens and signed URLs: bearer credentials that a key pair of the account signs, for some levels, until a time.

The text is `<grant>.<signature>`, both base64url: the grant as JSON, signed with HMAC-SHA256 under a key derived from
the secret of the access key that it names. A deleted or inactive key ends all grants that it signed. Nothing is stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgspec

from cns_common.aws.auth.accounts import KeyRing
from cns_common.aws.call import Caller
from cns_common.errors import UNREADABLE
from cns_server.rest.levels import LEVELS, allows
from cns_server.rest.problems import Problem

TOKEN_CHARS_MAX = 4_096
LIFE_S_MAX = 366 * 86_400
_DOMAIN = b"cns-rest-grant-1"


class NewToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """Permission to act as the owner of `key_id`. It never allows more than that principal may do."""

    key_id: str
    account: str
    """The account whose resources it names."""
    expires_s: int
    """Seconds since the epoch."""
    levels: tuple[str, ...] = ()
    """Empty: all levels."""
    queue: str = ""
    """The only queue that it allows; empty for all queues and topics of the account."""
    session: bool = False
    """Made by a sign-in with the key's secret: what its holder makes may outlive it."""
    session_id: str = ""

    def permits(self, action: str, account: str, queue: str) -> bool:
        """Whether it allows `action`, such as `sqs:SendMessage`, on a queue of an account ('' for none)."""
        if self.levels and not allows(self.levels, action):
            return False
        if account and account != self.account:
            return False
        return not self.queue or queue == self.queue


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(NewToken).decode


def sign_grant(grant: NewToken, secret: str) -> str:
    content = _encode(grant)
    return f"{_text(content)}.{_text(_mac(secret, content))}"


def verify_grant(token: str, ring: KeyRing, now_ms: int) -> tuple[Caller, NewToken]:
    """The principal behind a token, and its grant. Raises Problem 401 for a token that is not valid."""
    grant, content, mac = _parse(token)
    known = ring.find(grant.key_id)
    if known is None or not hmac.compare_digest(_mac(known[0], content), mac):
        raise refused("The token is not valid: its key does not exist, or the signature does not match.")
    if now_ms >= grant.expires_s * 1000:
        raise Problem(401, "ExpiredToken", "The token has expired.")
    return known[1], grant


def _parse(token: str) -> tuple[NewToken, bytes, bytes]:
    content, _, mac = token.partition(".")
    try:
        if len(token) > TOKEN_CHARS_MAX:
            raise ValueError("too long")
        data = _bytes(content)
        grant = _decode(data)
        if not LEVELS.keys() >= set(grant.levels):
            raise ValueError("an unknown level")
        return grant, data, _bytes(mac)
    except UNREADABLE:
        raise refused("The token is not valid: it is malformed.") from None


def refused(text: str) -> Problem:
    return Problem(401, "InvalidToken", text)


def _mac(secret: str, content: bytes) -> bytes:
    key = hmac.digest(secret.encode(), _DOMAIN, hashlib.sha256)
    return hmac.digest(key, content, hashlib.sha256)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _text(data) != text:
        raise ValueError("not the one spelling of these bytes")
    return data
