"""Hashes of passwords: scrypt with a salt, and its parameters beside it, so that later hashes may cost more.

`hash_password` and `verify_password` take some 0.2 s of a processor and 16 MB: call them in a thread.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import unicodedata
from typing import NamedTuple

from cns_common.errors import RequestError

CHARS_MIN = 12
CHARS_MAX = 256
COST_N, BLOCK_R, PARALLEL_P = 2**14, 8, 5
"""OWASP's parameters for 16 MB."""
SALT_BYTES = 16
DIGEST_BYTES = 32
_MEMORY_BYTES_MAX = 64 * 1024 * 1024


class _Hash(NamedTuple):
    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def is_of(self, password: str) -> bool:
        return hmac.compare_digest(_digest(password, self.salt, self.n, self.r, self.p), self.digest)


_NOBODYS = _Hash(COST_N, BLOCK_R, PARALLEL_P, bytes(SALT_BYTES), bytes(DIGEST_BYTES))
"""No known password has this digest."""


def check_password(password: str) -> None:
    """Raise RequestError for a text that may not be a password."""
    if not CHARS_MIN <= len(password) <= CHARS_MAX:
        raise RequestError("ValidationError", f"A password has {CHARS_MIN} to {CHARS_MAX} characters.")
    if not password.isprintable():
        raise RequestError("ValidationError", "A password has no control characters.")


def hash_password(password: str) -> str:
    """`scrypt$n$r$p$salt$digest`, salt and digest in base64."""
    salt = secrets.token_bytes(SALT_BYTES)
    digest = _digest(password, salt, COST_N, BLOCK_R, PARALLEL_P)
    parts = ["scrypt", COST_N, BLOCK_R, PARALLEL_P, *[base64.b64encode(part).decode() for part in (salt, digest)]]
    return "$".join(map(str, parts))


def verify_password(password: str, stored: str) -> bool:
    """Whether the hash is that of the password. An empty `stored` is the hash of no password; the answer takes as
    long."""
    found = _parse(stored) if stored else _NOBODYS
    return found.is_of(password[:CHARS_MAX]) and bool(stored) and len(password) <= CHARS_MAX


def _parse(stored: str) -> _Hash:
    _, n, r, p, salt, digest = stored.split("$")
    return _Hash(int(n), int(r), int(p), base64.b64decode(salt), base64.b64decode(digest))


def _digest(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    """NFKC makes one password of two ways to type the same characters."""
    text = unicodedata.normalize("NFKC", password).encode(errors="replace")
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=_MEMORY_BYTES_MAX, dklen=DIGEST_BYTES)
