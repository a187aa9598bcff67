"""Credentials that an endpoint requires: HTTP Basic and Digest (RFC 7616, MD5, qop=auth)."""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import md5
from typing import Annotated, Literal
from urllib.request import parse_http_list, parse_keqv_list

import msgspec
from msgspec import Meta

from cns_receiver.http_server import IncomingRequest

REALM = "cns receiver"

_NonEmpty = Annotated[str, Meta(min_length=1, max_length=256)]


class ReceiverCredentials(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scheme: Literal["basic", "digest"]
    user: _NonEmpty
    password: _NonEmpty


def challenge(required: ReceiverCredentials, request: IncomingRequest, nonce: str) -> str:
    """Return the WWW-Authenticate header for a client, or "" if its credentials are right."""
    given = request.headers.get(b"authorization", b"").decode("latin-1")
    if required.scheme == "basic":
        matches = hmac.compare_digest(_basic(required).encode(), given.encode())
        return "" if matches else f'Basic realm="{REALM}"'
    if _digest_matches(required, request, given, nonce):
        return ""
    return f'Digest realm="{REALM}", nonce="{nonce}", qop="auth", algorithm=MD5'


def _basic(required: ReceiverCredentials) -> str:
    return "Basic " + b64encode(f"{required.user}:{required.password}".encode()).decode("ascii")


def _digest_matches(required: ReceiverCredentials, request: IncomingRequest, given: str, nonce: str) -> bool:
    scheme, _, parameters = given.partition(" ")
    try:
        digest = parse_keqv_list(parse_http_list(parameters))
        target = digest["uri"]
        shape = f"{digest['nonce']}:{digest['nc']}:{digest['cnonce']}:{digest['qop']}"
        response = digest["response"]
    except (KeyError, ValueError, IndexError):
        return False
    if scheme.lower() != "digest" or digest["nonce"] != nonce or target != request.target.decode("latin-1"):
        return False
    secret = _hash(f"{required.user}:{REALM}:{required.password}")
    expected = _hash(f"{secret}:{shape}:{_hash(f'{request.method.decode()}:{target}')}")
    return hmac.compare_digest(expected.encode(), response.encode())


def _hash(text: str) -> str:
    return md5(text.encode()).hexdigest()
