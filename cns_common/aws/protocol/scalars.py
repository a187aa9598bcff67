"""Scalars of shapes: numbers, truth values, bytes and times are written, and read from text."""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime

from cns_common.errors import RequestError

INTEGER_RANGES = {"integer": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
NOUNS = {
    "string": "a String",
    "blob": "a Blob",
    "integer": "an Integer",
    "long": "a Long",
    "boolean": "a Boolean",
    "timestamp": "a Timestamp",
}

_INTEGER = re.compile(r"[+-]?[0-9]{1,32}")  # as recorded, STS accepts 0900 and +900, and refuses 9e2 and 900.0
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def read_text(text: str) -> str:
    return text


def read_integer(text: str) -> int:
    return _read_whole(text, "integer")


def read_long(text: str) -> int:
    return _read_whole(text, "long")


def _read_whole(text: str, kind: str) -> int:
    least, most = INTEGER_RANGES[kind]
    if _INTEGER.fullmatch(text) and least <= (number := int(text)) <= most:
        return number
    raise RequestError("MalformedInput", f"STRING_VALUE can not be converted to {NOUNS[kind]}")


def read_boolean(text: str) -> bool:
    truth = _BOOLEANS.get(text.lower())
    if truth is None:
        raise RequestError("MalformedInput", f"STRING_VALUE can not be converted to {NOUNS['boolean']}")
    return truth


def read_blob(text: str) -> bytes:
    """Decode base64. Raises RequestError."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error, or text beyond ASCII
        raise RequestError("MalformedInput", _base64_fault(text)) from error


def _base64_fault(text: str) -> str:
    if len(text) % 4:
        return f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(text)}"
    return "Invalid Base64 character"


def write_blob(blob: bytes) -> str:
    return binascii.b2a_base64(blob, newline=False).decode("ascii")


def write_boolean(truth: bool) -> str:
    return "true" if truth else "false"


def write_iso_time(at_ms: int) -> str:
    """ISO 8601 in UTC; milliseconds are written unless they are 0."""
    precision = "milliseconds" if at_ms % 1000 else "seconds"
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec=precision).removesuffix("+00:00") + "Z"


def write_epoch_time(at_ms: int) -> float:
    """Seconds since the epoch, as in the JSON protocols."""
    return at_ms / 1000
