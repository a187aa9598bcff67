"""Empties a service with a test clock, so that the next test begins as with a new one."""

from __future__ import annotations

from cns.delivery.jobs import INTERNAL_QUEUES
from cns_backend.account_removal import STEP_ITEMS, AccountRemoval
from cns_backend.backend import Backend
from cns_common.aws.call import INTERNAL_ACCOUNT
from cqs.internal_queues import internal_ref
from cqs.service import QueueService


class ServiceReset:
    """`waits_s`: the time for which names of deleted queues cannot be used again."""

    def __init__(self, backend: Backend, queues: QueueService, waits_s: int) -> None:
        self._backend = backend
        self._removal = AccountRemoval(backend, queues)
        self._waits_s = waits_s

    async def run(self) -> int:
        """Delete what all accounts own, the outbox, opted-out numbers and all pending deliveries. Accounts, users and
        keys stay. The clock, which never goes back, moves past the waits; returns its offset in ms."""
        backend = self._backend
        accounts = {*await backend.control.owners(), *[one.account for one in await backend.accounts.accounts()]}
        for account in sorted(accounts - {INTERNAL_ACCOUNT}):
            while (await self._removal.empty(account)).items:
                pass
            while numbers := await backend.sms.page_of_opted_out(account, "", STEP_ITEMS):
                for number in numbers:
                    await backend.sms.opt_in(account, number)
        for name in INTERNAL_QUEUES:
            await backend.engine.purge(internal_ref(name), backend.clock.now_ms())
        while items := await backend.outbox.newest("", "", "", STEP_ITEMS):
            await backend.outbox.remove([item.id for item in items])
        return await backend.control.advance_clock(self._waits_s * 1000)
