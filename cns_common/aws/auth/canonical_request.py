"""The bytes that a version 4 signature is computed over. Signing and verifying share this code."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote_from_bytes, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
TERMINATOR = "aws4_request"
SIGNING_KEYS_CACHED_MAX = 1024

Pair = tuple[bytes, bytes]

_ALGORITHM = ALGORITHM.encode()
_PLAIN_PATH = re.compile(rb"/|(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+/?")


def canonical_path(raw_path: bytes) -> bytes:
    """The path as sent, its segments normalised and then percent-encoded once more, as for every service but S3."""
    if _PLAIN_PATH.fullmatch(raw_path):
        return raw_path
    segments: list[bytes] = []
    for segment in raw_path.split(b"/"):
        if segment == b"..":
            del segments[-1:]
        elif segment not in (b"", b"."):
            segments.append(segment)
    tail = b"/" if segments and raw_path.endswith(b"/") else b""
    return quote_from_bytes(b"/" + b"/".join(segments) + tail, safe="/").encode()


def split_query(query: bytes) -> list[Pair]:
    """Names and values as sent. A name without `=` has an empty value."""
    pairs = []
    for text in query.split(b"&") if query else ():
        name, _, value = text.partition(b"=")
        pairs.append((name, value))
    return pairs


def canonical_query(pairs: Sequence[Pair]) -> bytes:
    return b"&".join([name + b"=" + value for name, value in sorted(pairs)])


def reencode(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs in canonical percent-encoding, which all SDKs but botocore sign, whatever they then send."""
    return [(_reencode_text(name), _reencode_text(value)) for name, value in pairs]


def _reencode_text(text: bytes) -> bytes:
    # all readers of a query here take a plus for a blank, so the signature must do so, too
    return quote_from_bytes(unquote_to_bytes(text.replace(b"+", b"%20")), safe="").encode()


def join_headers(headers: Sequence[Pair]) -> dict[bytes, bytes]:
    """Header values by lower-case name. Values of a repeated name are joined by commas in order of arrival."""
    joined = dict(headers)
    if len(joined) == len(headers):
        return joined
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value.strip())
    return {name: b",".join(several) for name, several in values.items()}


def request_template(signed_names: Iterable[bytes], signed_names_text: bytes) -> bytes:
    """A canonical request with a `%b` for method, path, query, each signed header's value and the payload's hash."""
    lines = [b"%b", b"%b", b"%b"]
    lines += [name.replace(b"%", b"%%") + b":%b" for name in signed_names]
    lines += [b"", signed_names_text.replace(b"%", b"%%"), b"%b"]
    return b"\n".join(lines)


def canonical_request(
    template: bytes,
    signed_names: Iterable[bytes],
    method: bytes,
    path: bytes,
    query: bytes,
    headers: Mapping[bytes, bytes],
    payload_hash: bytes,
) -> bytes:
    """Fill a template. `path` and `query` are canonical already; a signed header that was not sent counts as empty."""
    values = [b" ".join(headers.get(name, b"").split()) for name in signed_names]
    return template % (method, path, query, *values, payload_hash)


def signature_of(request: bytes, secret: str, date: bytes, scope: bytes) -> bytes:
    """The hex signature of a canonical request; `scope` is `yyyymmdd/region/service/aws4_request`."""
    request_hash = sha256(request).hexdigest().encode()
    keyed = _signing_key(secret, scope).copy()
    keyed.update(b"%b\n%b\n%b\n%b" % (_ALGORITHM, date, scope, request_hash))
    return keyed.hexdigest().encode()


@lru_cache(maxsize=SIGNING_KEYS_CACHED_MAX)
def _signing_key(secret: str, scope: bytes) -> hmac.HMAC:
    """An HMAC with the key and no data: copying it costs half of making a new one."""
    key = b"AWS4" + secret.encode()
    for part in scope.split(b"/"):
        key = hmac.digest(key, part, "sha256")
    return hmac.new(key, digestmod="sha256")
