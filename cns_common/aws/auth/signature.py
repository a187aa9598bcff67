"""Verifies AWS Signature Version 4, in header and query form.

Check a request in the order in which AWS does: `parse`, `SignedRequest.check`, look up the secret of `key_id` (raise
`unknown_key` when no account has it), `SignedRequest.verify`.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from cns_common.aws.auth.canonical_request import (
    Pair,
    canonical_path,
    canonical_query,
    canonical_request,
    join_headers,
    reencode,
    signature_of,
    split_query,
)
from cns_common.aws.auth.signature_claim import (
    Claim,
    claim_of_header,
    claim_of_query,
    fault_of_claim,
    read_date,
    signing_fields,
    write_date,
)
from cns_common.errors import RequestError

WINDOW_S = 15 * 60
EXPIRES_S_MAX = 604_800
"""The largest X-Amz-Expires of a presigned URL: a week. A larger one is refused, as is one below 1."""
_EXPIRES_DIGITS_MAX = len(str(EXPIRES_S_MAX))


class SignedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request with a signature. Its claim is unproven until `check` and `verify` have returned."""

    claim: Claim
    signature: bytes
    date: bytes
    signed_at_s: int
    valid_s: int
    method: bytes
    path: bytes
    query: list[Pair]
    headers: dict[bytes, bytes]

    @property
    def key_id(self) -> str:
        return self.claim.key_id

    @property
    def region(self) -> str:
        return self.claim.region

    @property
    def service(self) -> str:
        """The service that the credential is scoped to; empty when the credential names none."""
        return self.claim.service

    def check(self, service: str, now_ms: int) -> None:
        """Raise RequestError for a wrong date, signed headers, algorithm or scope. `service` is the called one."""
        now_s = now_ms // 1000
        if not now_s - self.valid_s <= self.signed_at_s <= now_s + WINDOW_S:
            raise self._clock_fault(now_s)
        claim = self.claim
        covered = claim.covered
        if b"host" not in covered:
            raise _unsigned("'Host' or ':authority'")
        for name in self.headers:
            # X-Amz-Target above all must be signed: it chooses the operation
            if name not in covered and name.startswith(b"x-amz-"):
                raise _unsigned(f"'{name.decode('latin-1')}'")
        if not (claim.sound and claim.service == service and claim.day == self.date[:8]):
            raise fault_of_claim(claim, service, self.date)

    def verify(self, secret: str, body: bytes) -> None:
        """Raise RequestError unless the owner of `secret` signed exactly this request with exactly this body."""
        payload_hash = sha256(body).hexdigest().encode()
        claimed_hash = self.headers.get(b"x-amz-content-sha256", payload_hash)
        if claimed_hash.lower() == payload_hash:
            # botocore signs the query as sent, other SDKs sign it re-encoded; both cover every name and value
            if self._matches(secret, self.query, claimed_hash):
                return
            if self.query and self._matches(secret, reencode(self.query), claimed_hash):
                return
        raise RequestError(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
            "Access Key and signing method. Consult the service documentation for details.",
        )

    def _matches(self, secret: str, query: Sequence[Pair], payload_hash: bytes) -> bool:
        claim = self.claim
        request = canonical_request(
            claim.template,
            claim.signed_names,
            self.method,
            self.path,
            canonical_query(query) if query else b"",
            self.headers,
            payload_hash,
        )
        expected = signature_of(request, secret, self.date, claim.scope)
        return hmac.compare_digest(expected, self.signature)

    def _clock_fault(self, now_s: int) -> RequestError:
        signed, now = self.date.decode(), write_date(now_s)
        if self.signed_at_s < now_s:
            limit = write_date(now_s - self.valid_s)
            text = f"Signature expired: {signed} is now earlier than {limit} ({now} - {_span(self.valid_s)}.)"
        else:
            limit = write_date(now_s + WINDOW_S)
            text = f"Signature not yet current: {signed} is still later than {limit} ({now} + {_span(WINDOW_S)}.)"
        return RequestError("SignatureDoesNotMatch", text)


def parse(method: str, raw_path: bytes, query_string: bytes, headers: Sequence[Pair]) -> SignedRequest | None:
    """The signature of a request, or None when it has none. Header names are lower-case, as ASGI gives them.

    Raises RequestError for a signature that cannot be read.
    """
    found = join_headers(headers)
    authorization = found.get(b"authorization", b"").strip()
    query = split_query(query_string) if query_string else []
    fields = signing_fields(query) if query else {}
    if not authorization and not fields:
        return None
    if authorization and fields:
        raise RequestError(
            "SignatureDoesNotMatch",
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
        )
    if fields:
        claim, signature = claim_of_query(fields)
        query = [pair for pair in query if pair[0] != b"X-Amz-Signature"]
        sent_date = fields[b"X-Amz-Date"]
    else:
        sent_date = (found.get(b"x-amz-date") or found.get(b"date", b"")).strip()
        claim, signature = claim_of_header(authorization, dated=sent_date != b"")
    date, signed_at_s = read_date(sent_date)
    return SignedRequest(
        claim=claim,
        signature=signature,
        date=date,
        signed_at_s=signed_at_s,
        valid_s=_valid_s(fields.get(b"X-Amz-Expires")),
        method=method.encode(),
        path=canonical_path(raw_path),
        query=query,
        headers=found,
    )


class UnknownKey(RequestError):
    """No account that this process knows has the key."""


def unknown_key() -> UnknownKey:
    """The error for a key that no account has."""
    return UnknownKey("InvalidClientTokenId", "The security token included in the request is invalid.")


def _unsigned(name: str) -> RequestError:
    return RequestError("SignatureDoesNotMatch", f"{name} must be a 'SignedHeader' in the AWS Authorization.")


def _valid_s(expires: bytes | None) -> int:
    """The seconds for which a signature is valid. SQS ends the validity of a presigned URL after 15 minutes, whatever
    longer time X-Amz-Expires names; a shorter time is honoured here. The range and the error texts are S3's."""
    if expires is None:
        return WINDOW_S
    digits = expires.removeprefix(b"-")
    if not digits.isdigit():
        raise RequestError("IncompleteSignature", "X-Amz-Expires should be a number")
    if digits != expires:
        raise RequestError("IncompleteSignature", "X-Amz-Expires must be non-negative")
    significant = digits.lstrip(b"0")
    if not significant:
        raise RequestError("IncompleteSignature", "X-Amz-Expires must be at least 1")
    if len(significant) > _EXPIRES_DIGITS_MAX or int(significant) > EXPIRES_S_MAX:
        raise RequestError(
            "IncompleteSignature",
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than "
            f"{EXPIRES_S_MAX} seconds",
        )
    return min(int(significant), WINDOW_S)


def _span(seconds: int) -> str:
    return f"{seconds} sec" if seconds % 60 else f"{seconds // 60} min"
