"""The characters that a message may have, and their encoding."""

from __future__ import annotations

from cns_common.errors import RequestError

_CONTROLS = bytes(code for code in range(0x20) if code not in (0x09, 0x0A, 0x0D))
"""In UTF-8 these bytes occur only as these characters, so deleting them finds them in any text."""
INVALID_CHARACTERS = (
    "Invalid characters found. Valid unicode characters are "
    "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
)


def encode_text(text: str, code: str = "InvalidMessageContents") -> bytes:
    """`text` in UTF-8. Raises RequestError with `code` for characters that SQS refuses. `bytes.translate` is eight
    times as fast as a regular expression here."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        raise RequestError(code, INVALID_CHARACTERS) from None
    if len(encoded.translate(None, _CONTROLS)) != len(encoded):
        raise RequestError(code, INVALID_CHARACTERS)
    if len(encoded) != len(text) and ("\ufffe" in text or "\uffff" in text):
        raise RequestError(code, INVALID_CHARACTERS)
    return encoded
