"""Checks the signatures of deliveries in the background, one at a time."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from cns.delivery.envelope import verify_body
from cns_common.bounded_cache import BoundedCache
from cns_common.errors import UNREADABLE
from cns_receiver.endpoint import Endpoint
from cns_receiver.fetch import Fetcher, FetchFailed, FetchRefused
from cns_receiver.record import Record, SignatureStatus

WAITING_BYTES_MAX = 64 * 1024 * 1024
CHECK_BYTES = 1_000
"""Memory of a waiting check, besides the body."""
CERTIFICATES_MAX = 64
FAILURE_CACHED_S = 10.0
"""The time for which a failed fetch of a certificate is not repeated."""


class _Check(NamedTuple):
    endpoint: Endpoint
    record: Record
    body: bytes


class _CachedCertificate(NamedTuple):
    certificate_pem: bytes | None
    until_s: float


class Verifier:
    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._certificates: BoundedCache[str, _CachedCertificate] = BoundedCache(CERTIFICATES_MAX)
        self._checks: asyncio.Queue[_Check] = asyncio.Queue()
        self._waiting_bytes = 0
        self._task: asyncio.Task[None] | None = None

    def submit(self, endpoint: Endpoint, record: Record, body: bytes) -> None:
        """Check the signature later; over the memory limit it stays unchecked."""
        size_bytes = CHECK_BYTES + len(body)
        if self._waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            endpoint.set_signature(record, SignatureStatus.UNCHECKED)
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._check_all())
        record.signature = SignatureStatus.WAITING
        self._waiting_bytes += size_bytes
        self._checks.put_nowait(_Check(endpoint, record, body))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _check_all(self) -> None:
        while True:
            check = await self._checks.get()
            self._waiting_bytes -= CHECK_BYTES + len(check.body)
            check.endpoint.set_signature(check.record, await self._signature_status(check.body))
            await asyncio.sleep(0)  # a full queue must not delay deliveries

    async def _signature_status(self, body: bytes) -> SignatureStatus:
        members = _text_members(body)
        if not {"Signature", "SigningCertURL"} & members.keys():
            return SignatureStatus.UNSIGNED
        try:
            certificate_pem = await self._certificate(members.get("SigningCertURL", ""))
        except FetchRefused:
            return SignatureStatus.BAD  # signed, but by an untrusted host
        if certificate_pem is None:
            return SignatureStatus.UNCHECKED
        return SignatureStatus.GOOD if verify_body(members, certificate_pem) else SignatureStatus.BAD

    async def _certificate(self, text: str) -> bytes | None:
        now_s = asyncio.get_running_loop().time()
        fetched = self._certificates.get(text)
        if fetched is None or fetched.until_s < now_s:
            fetched = await self._fetch(text, now_s)
            self._certificates.put(text, fetched)
        return fetched.certificate_pem

    async def _fetch(self, text: str, now_s: float) -> _CachedCertificate:
        url = self._fetcher.check(text)
        if not url.path.endswith(".pem"):
            raise FetchRefused("certificates are files that end in .pem")
        try:
            certificate_pem = await self._fetcher.get(url)
            x509.load_pem_x509_certificate(certificate_pem).public_key()
        except (FetchFailed, ValueError, UnsupportedAlgorithm):
            return _CachedCertificate(None, now_s + FAILURE_CACHED_S)
        return _CachedCertificate(certificate_pem, float("inf"))


def _text_members(body: bytes) -> dict[str, str]:
    """Return the text members of a JSON object; all signed members are text."""
    try:
        members = msgspec.json.decode(body, type=dict[str, object])
    except UNREADABLE:
        return {}
    return {name: value for name, value in members.items() if isinstance(value, str)}
