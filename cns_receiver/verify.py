"""Checks the signatures of what the fault receiver received, one at a time, while nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from cns.delivery.envelope import verify_body
from cns_common.bounded_cache import BoundedCache
from cns_receiver.fetch import Fetcher, FetchFailed, FetchRefused
from cns_receiver.mailbox import Mailbox
from cns_receiver.record import Record, Verdict

WAITING_BYTES_MAX = 64 * 1024 * 1024
CHECK_BYTES = 1_000
"""What a waiting check takes besides the body."""
CERTIFICATES_MAX = 64
FAILURE_KEPT_S = 10.0
"""So long a certificate that could not be had is not asked for again."""


class _Check(NamedTuple):
    mailbox: Mailbox
    record: Record
    body: bytes


class _Fetched(NamedTuple):
    certificate_pem: bytes | None
    until_s: float


class Verifier:
    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._certificates: BoundedCache[str, _Fetched] = BoundedCache(CERTIFICATES_MAX)
        self._checks: asyncio.Queue[_Check] = asyncio.Queue()
        self._waiting_bytes = 0
        self._work: asyncio.Task[None] | None = None

    def submit(self, mailbox: Mailbox, record: Record, body: bytes) -> None:
        """Check later; what there is no room for stays unchecked."""
        size_bytes = CHECK_BYTES + len(body)
        if self._waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            mailbox.judge(record, Verdict.UNCHECKED)
            return
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._check_all())
        record.verdict = Verdict.WAITING
        self._waiting_bytes += size_bytes
        self._checks.put_nowait(_Check(mailbox, record, body))

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _check_all(self) -> None:
        while True:
            check = await self._checks.get()
            self._waiting_bytes -= CHECK_BYTES + len(check.body)
            check.mailbox.judge(check.record, await self._verdict(check.body))
            await asyncio.sleep(0)  # a full queue does not hold up deliveries

    async def _verdict(self, body: bytes) -> Verdict:
        members = _text_members(body)
        if not {"Signature", "SigningCertURL"} & members.keys():
            return Verdict.UNSIGNED
        try:
            certificate_pem = await self._certificate(members.get("SigningCertURL", ""))
        except FetchRefused:
            return Verdict.BAD  # signed, but by nobody we would trust
        if certificate_pem is None:
            return Verdict.UNCHECKED
        return Verdict.GOOD if verify_body(members, certificate_pem) else Verdict.BAD

    async def _certificate(self, text: str) -> bytes | None:
        now_s = asyncio.get_running_loop().time()
        fetched = self._certificates.get(text)
        if fetched is None or fetched.until_s < now_s:
            fetched = await self._fetch(text, now_s)
            self._certificates.put(text, fetched)
        return fetched.certificate_pem

    async def _fetch(self, text: str, now_s: float) -> _Fetched:
        url = self._fetcher.checked(text)
        if not url.path.endswith(".pem"):
            raise FetchRefused("certificates are files that end in .pem")
        try:
            certificate_pem = await self._fetcher.get(url)
            x509.load_pem_x509_certificate(certificate_pem).public_key()
        except (FetchFailed, ValueError, UnsupportedAlgorithm):
            return _Fetched(None, now_s + FAILURE_KEPT_S)
        return _Fetched(certificate_pem, float("inf"))


def _text_members(body: bytes) -> dict[str, str]:
    """Those members of a JSON object that are text: all that is signed is."""
    try:
        members = msgspec.json.decode(body, type=dict[str, object])
    except (ValueError, RecursionError):
        return {}
    return {name: value for name, value in members.items() if isinstance(value, str)}
