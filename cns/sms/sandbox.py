"""The SMS sandbox: an account in it can send only to numbers that were verified by a one-time password."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence

from msgspec.structs import replace

from cns.errors import concurrent_access
from cns.limits import PAGE_SIZE, UPDATE_TRIES_MAX
from cns.notification import Notification
from cns.paging import page_of, read_token
from cns.publishing.message_text import DEFAULT_TEXT
from cns.publishing.publish_direct import DirectJobs
from cns.sms.numbers import NumberState, SandboxNumber, check_number
from cns.stores.mobile_contract import SmsStore
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text

NUMBERS_MAX = 10
"""Numbers of an account in a region."""
PASSWORD_DIGITS = 6
PASSWORD_LIFE_MS = 15 * 60_000
FAILURES_MAX = 5
"""Wrong guesses after which a password becomes invalid."""


class SmsSandbox:
    def __init__(self, store: SmsStore, jobs: DirectJobs, clock: Clock, *, enabled: bool) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock
        self.enabled = enabled

    async def add_number(self, call: Call, number: str) -> None:
        """Add a number and send it a password. A pending number gets a new one; a verified number stays verified."""
        account, region = call.caller.account, call.region
        check_number(number)
        if await self._store.opted_out(account, number):
            raise RequestError("OptedOut", "The phone number has opted out of receiving SMS messages from this account")
        before = await self._store.sandbox_number(account, region, number)
        if before is not None and before.state is NumberState.VERIFIED:
            return
        if before is None and len(await self._store.page_of_sandbox(account, region, "", NUMBERS_MAX)) >= NUMBERS_MAX:
            raise RequestError("UserError", f"An account can have {NUMBERS_MAX} destination phone numbers at most")
        version = 0 if before is None else before.version
        password = "".join(secrets.choice("0123456789") for _ in range(PASSWORD_DIGITS))
        entered = SandboxNumber(
            account=account,
            region=region,
            number=number,
            version=version + 1,
            password=password,
            password_expires_ms=self._clock.now_ms() + PASSWORD_LIFE_MS,
        )
        if not await self._store.put_sandbox_number(entered, version):
            raise concurrent_access()
        await self._send(call, number, f"Your AWS SNS verification code is {password}")

    async def _send(self, call: Call, number: str, text: str) -> None:
        now_ms = self._clock.now_ms()
        message = Notification(id=uuid_text(), topic_arn="", timestamp_ms=now_ms, texts={DEFAULT_TEXT: text})
        await self._jobs.enqueue_sms(call, number, message)

    async def verify(self, call: Call, number: str, password: str) -> None:
        """Verify a number. A wrong guess is counted before the call is answered."""
        for _ in range(UPDATE_TRIES_MAX):
            before = await self._find(call, number)
            valid = self._is_valid(before, password)
            failures = before.failures + 1
            if valid:
                after = replace(before, state=NumberState.VERIFIED, password="", failures=0)
            else:
                spent = failures >= FAILURES_MAX
                after = replace(before, failures=failures, password="" if spent else before.password)
            if await self._store.put_sandbox_number(replace(after, version=before.version + 1), before.version):
                if valid:
                    return
                raise RequestError("VerificationException", "The one-time password is invalid or has expired")
        raise concurrent_access()

    def _is_valid(self, number: SandboxNumber, password: str) -> bool:
        in_time = self._clock.now_ms() < number.password_expires_ms
        return bool(number.password) and in_time and hmac.compare_digest(number.password, password)

    async def remove(self, call: Call, number: str) -> None:
        await self._find(call, number)
        await self._store.remove_sandbox_number(call.caller.account, call.region, number)

    async def numbers(
        self, call: Call, token: str | None, n: int = PAGE_SIZE
    ) -> tuple[Sequence[SandboxNumber], str | None]:
        found = await self._store.page_of_sandbox(call.caller.account, call.region, read_token(token), n + 1)
        return page_of(found, lambda number: number.number, n)

    async def _find(self, call: Call, number: str) -> SandboxNumber:
        check_number(number)
        found = await self._store.sandbox_number(call.caller.account, call.region, number)
        if found is None:
            raise RequestError("ResourceNotFound", "The destination phone number does not exist in the SMS sandbox")
        return found
