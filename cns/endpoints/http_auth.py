"""Answers a 401 with basic or digest credentials (RFC 7617, RFC 7616), the strongest scheme that the endpoint offers.

Credentials are computed for one request. No nonce is kept, so none is used twice, and each notification is first posted
without credentials, as by AWS.
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
"""The nonce count of a nonce's first use."""
_HASHES: MappingProxyType[str, str] = MappingProxyType({"SHA-512-256": "sha512_256", "SHA-256": "sha256", "MD5": "md5"})
"""Names in hashlib by algorithm, strongest first."""
_SESSION = "-SESS"
_ITEM = re.compile(r"""([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?""")
"""Matches a scheme, which stands alone, or a parameter with a value, quoted or not."""
_ESCAPED = re.compile(r"\\(.)")
_TO_ESCAPE = re.compile(r'(["\\])')


class Challenge(NamedTuple):
    scheme: str
    parameters: dict[str, str]


class EndpointCredentials(NamedTuple):
    """Credentials from an endpoint's URL. Error and log texts never contain them."""

    name: str
    password: str


class DigestInput(NamedTuple):
    """The parts of a POST that a digest covers."""

    target: str
    body: bytes


def challenges(fields: Iterable[str]) -> list[Challenge]:
    """Parse WWW-Authenticate headers. Unreadable parts are skipped."""
    found: list[Challenge] = []
    for field in fields:
        no_scheme = True  # parameters belong to a scheme of the same header
        for name, quoted, plain in _items(field):
            if quoted is None and plain is None:
                found.append(Challenge(name.lower(), {}))
                no_scheme = False
            elif not no_scheme:
                value = plain or "" if quoted is None else _ESCAPED.sub(r"\1", quoted)
                found[-1].parameters.setdefault(name.lower(), value)
    return found


def authorization(
    offered: list[Challenge], credentials: EndpointCredentials, request: DigestInput, cnonce: str = ""
) -> str | None:
    """The Authorization header for the strongest known challenge, or None when no challenge is known."""
    digests = {challenge.parameters.get("algorithm", "MD5").upper(): challenge for challenge in _digests(offered)}
    for algorithm in _HASHES:
        for variant in (algorithm + _SESSION, algorithm):
            if variant in digests:
                return _digest(
                    variant, digests[variant].parameters, credentials, request, cnonce or secrets.token_hex(8)
                )
    if any(challenge.scheme == "basic" for challenge in offered):
        return "Basic " + b64encode(f"{credentials.name}:{credentials.password}".encode()).decode("ascii")
    return None


def has_stale_nonce(offered: list[Challenge]) -> bool:
    """Whether the credentials were right and only the nonce was stale; the challenge has a new one."""
    return any(challenge.parameters.get("stale", "").lower() == "true" for challenge in _digests(offered))


def _items(field: str) -> Iterable[tuple[str, str | None, str | None]]:
    return ((match[1], match[2], match[3]) for match in _ITEM.finditer(field))


def _digests(offered: list[Challenge]) -> list[Challenge]:
    return [challenge for challenge in offered if challenge.scheme == "digest" and challenge.parameters.get("nonce")]


def _digest(
    algorithm: str, challenge: Mapping[str, str], credentials: EndpointCredentials, request: DigestInput, cnonce: str
) -> str:
    hash_name = _HASHES[algorithm.removesuffix(_SESSION)]

    def hashed(*parts: str | bytes) -> str:
        joined = b":".join(part.encode() if isinstance(part, str) else part for part in parts)
        return hashlib.new(hash_name, joined, usedforsecurity=False).hexdigest()

    realm, nonce = challenge.get("realm", ""), challenge["nonce"]
    secret = hashed(credentials.name, realm, credentials.password)
    if algorithm.endswith(_SESSION):
        secret = hashed(secret, nonce, cnonce)
    qops = [word.strip().lower() for word in challenge.get("qop", "").split(",") if word.strip()]
    qop = "auth" if "auth" in qops else "auth-int" if "auth-int" in qops else ""
    covered = ["POST", request.target, *([hashed(request.body)] if qop == "auth-int" else [])]
    counted = (nonce, FIRST_NONCE_COUNT, cnonce, qop) if qop else (nonce,)
    fields = {
        "username": _quoted(credentials.name),
        "realm": _quoted(realm),
        "nonce": _quoted(nonce),
        "uri": _quoted(request.target),
        "response": _quoted(hashed(secret, *counted, hashed(*covered))),
    }
    if "algorithm" in challenge:
        fields["algorithm"] = challenge["algorithm"]
    if "opaque" in challenge:
        fields["opaque"] = _quoted(challenge["opaque"])
    if qop:
        fields |= {"qop": qop, "nc": FIRST_NONCE_COUNT}
    if qop or algorithm.endswith(_SESSION):
        fields["cnonce"] = _quoted(cnonce)
    return "Digest " + ", ".join(f"{name}={value}" for name, value in fields.items())


def _quoted(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(r"\\\1", text) + '"'
