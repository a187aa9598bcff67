"""Reads what a request claims about its own signature, and words the errors of a wrong claim. It proves nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import msgspec

from cns_common.aws.auth.canonical_request import ALGORITHM, TERMINATOR, Pair, request_template
from cns_common.aws.region import REGION_CHARS_MAX
from cns_common.errors import RequestError

CLAIMS_CACHED_MAX = 1024
CLAIM_BYTES_CACHED_MAX = 1024  # a longer header is not cached, so that no caller fills the memory
DATES_CACHED_MAX = 64  # the requests of one second share one date
DATE_FORMAT = "%Y%m%dT%H%M%SZ"
DATE_BYTES = 16

_DATE = re.compile(rb"\d{8}T\d{6}Z")
_REGION = re.compile(f"[a-z0-9-]{{1,{REGION_CHARS_MAX}}}")
_SEPARATORS = re.compile(rb"[,\s]+")
_HEADER_FIELDS = (b"Credential", b"Signature", b"SignedHeaders")
_QUERY_FIELDS = (b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Signature", b"X-Amz-SignedHeaders", b"X-Amz-Date")
_QUERY_MARKS = frozenset(_QUERY_FIELDS[:3])


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """All fields but date and signature. One client repeats them from call to call, so they are cached."""

    algorithm: str
    credential: str
    key_id: str = ""
    day: bytes = b""
    region: str = ""
    service: str = ""
    terminator: str = ""
    scope: bytes = b""
    signed_names: tuple[bytes, ...]
    covered: frozenset[bytes]
    template: bytes
    sound: bool = False  # algorithm, region and terminator are right


def claim_of_header(text: bytes, *, dated: bool) -> tuple[Claim, bytes]:
    """Claim and signature of an Authorization header, whose fields may come in any order. `dated`: the request has a
    date."""
    prefix, _, signature = text.rpartition(b"Signature=")
    if dated and signature.isalnum() and prefix.endswith((b",", b" ")) and len(prefix) <= CLAIM_BYTES_CACHED_MAX:
        claim = _claim_of_prefix(prefix)
        if claim is not None:
            return claim, signature
    algorithm, *pieces = _SEPARATORS.split(text)
    fields = _fields(pieces, text)
    missing = [
        f"Authorization header requires '{name.decode()}' parameter." for name in _HEADER_FIELDS if not fields.get(name)
    ]
    if not dated:
        missing.append("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
    if missing:
        raise RequestError("IncompleteSignature", f"{' '.join(missing)} Authorization={_text(text)}")
    return _claim(algorithm, fields[b"Credential"], fields[b"SignedHeaders"]), fields[b"Signature"]


@lru_cache(maxsize=CLAIMS_CACHED_MAX)
def _claim_of_prefix(prefix: bytes) -> Claim | None:
    """The claim of a header whose signature comes last, as in every SDK; None when the general reader must read it."""
    algorithm, *pieces = _SEPARATORS.split(prefix)
    fields = {name: value for name, _, value in (piece.partition(b"=") for piece in pieces if piece)}
    if fields.keys() != {b"Credential", b"SignedHeaders"} or not all(fields.values()):
        return None
    return _claim(algorithm, fields[b"Credential"], fields[b"SignedHeaders"])


def _fields(pieces: Iterable[bytes], header: bytes) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for piece in filter(None, pieces):
        name, equals, value = piece.partition(b"=")
        if not equals:
            raise RequestError(
                "IncompleteSignature",
                f"'{_text(piece)}' not a valid key=value pair (missing equal-sign) in Authorization header: "
                f"'{_text(header)}'.",
            )
        fields[name] = value
    return fields


def signing_fields(query: Sequence[Pair]) -> dict[bytes, bytes]:
    """The decoded X-Amz- parameters of a presigned URL; empty when the query has no signature."""
    fields: dict[bytes, bytes] = {}
    for name, value in query:
        if name.startswith(b"X-Amz-"):
            fields.setdefault(name, unquote_to_bytes(value))
    return fields if fields.keys() & _QUERY_MARKS else {}


def claim_of_query(fields: dict[bytes, bytes]) -> tuple[Claim, bytes]:
    """Claim and signature of a presigned URL."""
    missing = [
        f"AWS query-string parameters must include '{name.decode()}'." for name in _QUERY_FIELDS if not fields.get(name)
    ]
    if missing:
        raise RequestError("IncompleteSignature", f"{' '.join(missing)} Re-examine the query-string parameters.")
    claim = _claim(fields[b"X-Amz-Algorithm"], fields[b"X-Amz-Credential"], fields[b"X-Amz-SignedHeaders"])
    return claim, fields[b"X-Amz-Signature"]


def _claim(algorithm: bytes, credential: bytes, signed_names_text: bytes) -> Claim:
    # each name once: a header of 60 KB that is listed ten thousand times would be copied as often
    names = tuple(dict.fromkeys(signed_names_text.lower().split(b";")))
    template = request_template(names, signed_names_text)
    parts = _text(credential).split("/")
    if len(parts) != 5:
        return Claim(
            algorithm=_text(algorithm),
            credential=_text(credential),
            signed_names=names,
            covered=frozenset(names),
            template=template,
        )
    key_id, day, region, service, terminator = parts
    return Claim(
        algorithm=_text(algorithm),
        credential=_text(credential),
        key_id=key_id,
        day=day.encode("latin-1"),
        region=region,
        service=service,
        terminator=terminator,
        scope=credential.partition(b"/")[2],
        signed_names=names,
        covered=frozenset(names),
        template=template,
        sound=_text(algorithm) == ALGORITHM and _REGION.fullmatch(region) is not None and terminator == TERMINATOR,
    )


def fault_of_claim(claim: Claim, service: str, date: bytes) -> RequestError:
    """The error for a claim that is not `sound`, or not for this service and day."""
    if claim.algorithm != ALGORITHM:
        text = f"Unsupported AWS 'algorithm': '{claim.algorithm}' (only {ALGORITHM} for now). "
        return RequestError("IncompleteSignature", text)
    if not claim.scope:
        return RequestError(
            "IncompleteSignature",
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
            f"got '{claim.credential}'",
        )
    faults = []
    if not _REGION.fullmatch(claim.region):
        faults.append(f"Credential should be scoped to a valid region, not '{claim.region}'. ")
    if claim.service != service:
        faults.append(f"Credential should be scoped to correct service: '{service}'. ")
    if claim.terminator != TERMINATOR:
        faults.append(
            f"Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{claim.terminator}'. "
        )
    if claim.day != date[:8]:
        faults.append(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            f"'{_text(claim.day)}' != '{_text(date[:8])}', from '{_text(date)}'."
        )
    return RequestError("SignatureDoesNotMatch", "".join(faults))


def read_date(text: bytes) -> tuple[bytes, int]:
    """A date as `yyyymmddThhmmssZ`, and in seconds since the epoch. The Date header may have HTTP's own form."""
    date = text if len(text) == DATE_BYTES else _basic_form(text)
    seconds = _seconds(date)
    if seconds is None:
        raise RequestError(
            "IncompleteSignature",
            f"Date must be in ISO-8601 'basic format'. Got '{_text(text)}'. See http://en.wikipedia.org/wiki/ISO_8601",
        )
    return date, seconds


@lru_cache(maxsize=DATES_CACHED_MAX)
def write_date(seconds: int) -> str:
    """The inverse of `read_date`."""
    return datetime.fromtimestamp(seconds, UTC).strftime(DATE_FORMAT)


def _basic_form(text: bytes) -> bytes:
    try:
        date = parsedate_to_datetime(_text(text))
        zoned = date if date.tzinfo else date.replace(tzinfo=UTC)  # '-0000', which botocore sends, has no zone
        return zoned.astimezone(UTC).strftime(DATE_FORMAT).encode()
    except (ValueError, OverflowError):
        return b""


@lru_cache(maxsize=DATES_CACHED_MAX)
def _seconds(date: bytes) -> int | None:
    if not _DATE.fullmatch(date):
        return None
    try:
        # as strptime with DATE_FORMAT, which takes ten times as long
        day, clock = (
            (int(date[:4]), int(date[4:6]), int(date[6:8])),
            (int(date[9:11]), int(date[11:13]), int(date[13:15])),
        )
        return int(datetime(*day, *clock, tzinfo=UTC).timestamp())
    except ValueError:
        return None


def _text(wire: bytes) -> str:
    return wire.decode("latin-1")
