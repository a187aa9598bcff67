"""The credentials an endpoint of the fault receiver can ask for: HTTP Basic and Digest (RFC 7616, MD5, qop=auth)."""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import md5
from typing import Annotated, Literal
from urllib.request import parse_http_list, parse_keqv_list

import msgspec
from msgspec import Meta

from cns_receiver.http_server import Request

REALM = "cns receiver"

_Word = Annotated[str, Meta(min_length=1, max_length=256)]


class Credentials(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scheme: Literal["basic", "digest"]
    user: _Word
    password: _Word


def challenge(wanted: Credentials, request: Request, nonce: str) -> str:
    """What to ask a client for (WWW-Authenticate), or "" when it gave the right credentials."""
    given = request.headers.get(b"authorization", b"").decode("latin-1")
    if wanted.scheme == "basic":
        good = hmac.compare_digest(_basic(wanted).encode(), given.encode())
        return "" if good else f'Basic realm="{REALM}"'
    if _digest_is_good(wanted, request, given, nonce):
        return ""
    return f'Digest realm="{REALM}", nonce="{nonce}", qop="auth", algorithm=MD5'


def _basic(wanted: Credentials) -> str:
    return "Basic " + b64encode(f"{wanted.user}:{wanted.password}".encode()).decode("ascii")


def _digest_is_good(wanted: Credentials, request: Request, given: str, nonce: str) -> bool:
    scheme, _, words = given.partition(" ")
    try:
        said = parse_keqv_list(parse_http_list(words))
        target = said["uri"]
        shape = f"{said['nonce']}:{said['nc']}:{said['cnonce']}:{said['qop']}"
        response = said["response"]
    except (KeyError, ValueError, IndexError):
        return False
    if scheme.lower() != "digest" or said["nonce"] != nonce or target != request.target.decode("latin-1"):
        return False
    secret = _hash(f"{wanted.user}:{REALM}:{wanted.password}")
    expected = _hash(f"{secret}:{shape}:{_hash(f'{request.method.decode()}:{target}')}")
    return hmac.compare_digest(expected.encode(), response.encode())


def _hash(text: str) -> str:
    return md5(text.encode()).hexdigest()
