"""`application/x-www-form-urlencoded`: limited before it is decoded, and decoded in C.

urllib takes 0.3 µs per escape, in the event loop and before the caller is authenticated: half a second for 6 MB.
"""

from __future__ import annotations

import binascii
import re

from cns_common.errors import RequestError

PAIRS_MAX = 10_000
"""Per request. The largest legal batch has some 1,100, and a publish has three per attribute."""
ESCAPES_MAX = 1_500_000
"""Per request. 1 MiB of binary attributes is 1.4 million characters of base64, all of which may be escaped."""
BROKEN_ESCAPES_MAX = 1_000
"""Per value. They are taken literally, and cost more than correct ones."""

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def read_pairs(query: bytes, form: bytes) -> list[tuple[str, str]]:
    """Name-value pairs of the query string and of a form body. Raises RequestError if there are too many."""
    pairs: list[tuple[str, str]] = []
    for raw in (query, form):
        if raw:
            if raw.count(b"&") >= PAIRS_MAX or raw.count(b"%") > ESCAPES_MAX:
                raise _too_many()
            for pair in raw.split(b"&"):
                if pair:
                    name, _, value = pair.partition(b"=")
                    pairs.append((_decode(name), _decode(value)))
    return pairs


def _decode(text: bytes) -> str:
    if b"+" in text:
        text = text.replace(b"+", b" ")
    escapes = text.count(b"%")
    if not escapes:
        return text.decode("utf-8", "replace")
    decoded = _unescape(text)
    if len(decoded) != len(text) - 2 * escapes or b"%\n" in text or b"%\r" in text:
        corrected, broken = _BROKEN_ESCAPE.subn(b"%25", text, count=BROKEN_ESCAPES_MAX + 1)
        if broken > BROKEN_ESCAPES_MAX:
            raise _too_many()
        decoded = _unescape(corrected)
    return decoded.decode("utf-8", "replace")


def _unescape(text: bytes) -> bytes:
    """Decode as quoted-printable, which has `=` for `%` and which Python decodes in C. The result is right if no escape
    is broken: then each escape makes the text two bytes shorter."""
    return binascii.a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))


def _too_many() -> RequestError:
    return RequestError("MalformedInput", "Too many parameters.")
