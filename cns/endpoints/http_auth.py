"""What answers a 401: basic and digest credentials (RFC 7617, RFC 7616), the strongest that the endpoint offers.

Credentials are shown to who asks, for one request: no nonce is kept, so none is ever used twice, and each notification
begins without, as AWS's do.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

FIRST_NONCE_COUNT = "00000001"
"""Of a nonce."""
_HASHES: MappingProxyType[str, str] = MappingProxyType({"SHA-512-256": "sha512_256", "SHA-256": "sha256", "MD5": "md5"})
"""hashlib's names of the algorithms, strongest first."""
_SESSION = "-SESS"
_ITEM = re.compile(r"""([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?""")
"""A scheme stands alone, a parameter has a value, quoted or not."""
_ESCAPED = re.compile(r"\\(.)")
_TO_ESCAPE = re.compile(r'(["\\])')


class Challenge(NamedTuple):
    scheme: str
    parameters: dict[str, str]


class Credentials(NamedTuple):
    """Of an endpoint's URL. Kept out of logs: nothing here is ever part of a text."""

    name: str
    password: str


class DigestInput(NamedTuple):
    """What of a POST a digest covers."""

    target: str
    body: bytes


def challenges(fields: Iterable[str]) -> list[Challenge]:
    """All that the WWW-Authenticate headers of an answer ask for; what cannot be read is left out."""
    found: list[Challenge] = []
    for field in fields:
        fresh = True  # parameters belong to a scheme of the same header
        for name, quoted, plain in _items(field):
            if quoted is None and plain is None:
                found.append(Challenge(name.lower(), {}))
                fresh = False
            elif not fresh:
                value = plain or "" if quoted is None else _ESCAPED.sub(r"\1", quoted)
                found[-1].parameters.setdefault(name.lower(), value)
    return found


def authorization(asked: list[Challenge], credentials: Credentials, sent: DigestInput, cnonce: str = "") -> str | None:
    """The Authorization header that answers best, or None when nothing asked for is known here."""
    digests = {challenge.parameters.get("algorithm", "MD5").upper(): challenge for challenge in _digests(asked)}
    for algorithm in _HASHES:
        for variant in (algorithm + _SESSION, algorithm):
            if variant in digests:
                return _digest(variant, digests[variant].parameters, credentials, sent, cnonce or secrets.token_hex(8))
    if any(challenge.scheme == "basic" for challenge in asked):
        return "Basic " + b64encode(f"{credentials.name}:{credentials.password}".encode()).decode("ascii")
    return None


def has_stale_nonce(asked: list[Challenge]) -> bool:
    """Whether the credentials were right and only the nonce was not: a fresh one is in the challenge."""
    return any(challenge.parameters.get("stale", "").lower() == "true" for challenge in _digests(asked))


def _items(field: str) -> Iterable[tuple[str, str | None, str | None]]:
    return ((match[1], match[2], match[3]) for match in _ITEM.finditer(field))


def _digests(asked: list[Challenge]) -> list[Challenge]:
    return [challenge for challenge in asked if challenge.scheme == "digest" and challenge.parameters.get("nonce")]


def _digest(algorithm: str, asked: Mapping[str, str], credentials: Credentials, sent: DigestInput, cnonce: str) -> str:
    hash_name = _HASHES[algorithm.removesuffix(_SESSION)]

    def hashed(*parts: str | bytes) -> str:
        joined = b":".join(part.encode() if isinstance(part, str) else part for part in parts)
        return hashlib.new(hash_name, joined, usedforsecurity=False).hexdigest()

    realm, nonce = asked.get("realm", ""), asked["nonce"]
    secret = hashed(credentials.name, realm, credentials.password)
    if algorithm.endswith(_SESSION):
        secret = hashed(secret, nonce, cnonce)
    offered = [word.strip().lower() for word in asked.get("qop", "").split(",") if word.strip()]
    qop = "auth" if "auth" in offered else "auth-int" if "auth-int" in offered else ""
    covered = ["POST", sent.target, *([hashed(sent.body)] if qop == "auth-int" else [])]
    counted = (nonce, FIRST_NONCE_COUNT, cnonce, qop) if qop else (nonce,)
    fields = {
        "username": _quoted(credentials.name),
        "realm": _quoted(realm),
        "nonce": _quoted(nonce),
        "uri": _quoted(sent.target),
        "response": _quoted(hashed(secret, *counted, hashed(*covered))),
    }
    if "algorithm" in asked:
        fields["algorithm"] = asked["algorithm"]
    if "opaque" in asked:
        fields["opaque"] = _quoted(asked["opaque"])
    if qop:
        fields |= {"qop": qop, "nc": FIRST_NONCE_COUNT}
    if qop or algorithm.endswith(_SESSION):
        fields["cnonce"] = _quoted(cnonce)
    return "Digest " + ", ".join(f"{name}={value}" for name, value in fields.items())


def _quoted(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(r"\\\1", text) + '"'
