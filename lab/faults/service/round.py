"""The parts that all rounds under load share: clients, faults, a drain until nothing arrives, and the account of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from lab.faults.accounting.accounting import Account
from lab.faults.accounting.arrivals import Arrivals
from lab.faults.accounting.causes import Causes
from lab.faults.accounting.ledger import Ledger
from lab.faults.results import LoadResult
from lab.faults.service.clients import LoadClients
from lab.faults.service.resources import JUMP_S, RoundResources
from lab.faults.service.wire import OutcomeUnknown, Refused, Wire

JUMPS_MAX = 24
"""A jump takes three seconds or more. What a killed process wrote last comes into Redis when the process is found dead,
12 to 18 seconds after the kill, and later on a busy machine: the consumers run until then."""
QUIET_S = 2.0
"""After this time without arrivals, missing messages wait for a lease to end. A worker settles after one second; the
visibility timeout of the queue with a redrive policy is one second."""
FINAL_POLL_S = 1.0
POLL_INTERVAL_S = 0.02

Result = TypeVar("Result", bound=LoadResult)


class Round:
    """`load` runs it: a kind of round overrides `inject_faults`, and what else differs."""

    load_after_s = 1.0
    """Load after the faults."""
    clock_followed_s = 1.2
    """Processes poll every second for jumps of the clock; all have followed then."""

    def __init__(self, resources: RoundResources, ledger: Ledger, causes: Causes, clients: LoadClients) -> None:
        self.resources = resources
        self.ledger = ledger
        self.arrivals = Arrivals(resources.journal)
        self.clients = clients
        self._causes = causes

    async def inject_faults(self) -> None:
        raise NotImplementedError

    async def is_empty(self) -> bool:
        """Whether the store holds no message."""
        return True

    async def prepare_drain(self) -> None: ...

    def account(self) -> Account:
        return Account(self.resources, self.ledger, self.arrivals, self._causes)

    async def load(self) -> None:
        wire = self.resources.wire()
        self.clients.start()
        try:
            await self.inject_faults()
            await asyncio.sleep(self.load_after_s)
            await self.clients.stop_sending()
            await self.prepare_drain()
            await self._drain(wire)
        finally:
            await self.clients.close()
            wire.close()

    # -- the drain ----------------------------------------------------------------------------------------------------

    async def _drain(self, wire: Wire) -> None:
        """Return when every acknowledged message was received and the service is empty, or after `JUMPS_MAX`."""
        for _ in range(JUMPS_MAX):
            if await self._quiet(QUIET_S) and (self.clients.failed() or await self.is_empty()):
                break
            await self._jump(wire)
        else:
            await self._quiet(QUIET_S)
        await self._jump(wire)  # makes a message visible that should be gone
        await self._quiet(FINAL_POLL_S)

    async def _quiet(self, quiet_s: float) -> bool:
        """Wait until nothing arrives for `quiet_s`. Returns whether no acknowledged message is missing then."""
        last_s, seen = time.monotonic(), 0
        while time.monotonic() - last_s < quiet_s:
            if self.arrivals.read() or len(self.ledger.receipts) != seen:
                last_s, seen = time.monotonic(), len(self.ledger.receipts)
            if self.clients.failed():
                return True  # `close` raises its exception
            await asyncio.sleep(POLL_INTERVAL_S)
        return not self.account().missing

    async def _jump(self, wire: Wire) -> None:
        """Move the clock past every lease. No client holds a message meanwhile."""
        await self.clients.pause()
        self.ledger.jumps_ns.append(time.time_ns())
        await advance(wire, JUMP_S)
        await asyncio.sleep(self.clock_followed_s)
        self.clients.resume()


async def advance(wire: Wire, seconds: int) -> int:
    """Move the test clock. Returns its offset in ms."""
    body = msgspec.json.encode({"advance_s": seconds})
    while True:
        try:
            answer = await wire.post("/_cns/clock", body)
        except OutcomeUnknown:
            await asyncio.sleep(POLL_INTERVAL_S)
        else:
            return msgspec.json.decode(answer, type=dict[str, int])["offset_ms"]


async def finish(work: Awaitable[dict[str, Any]], limit_s: float, planned: Result) -> Result:
    """The planned result with the members that the round found; with the reason alone if it cannot go on, or not within
    `limit_s`."""
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(limit_s):
            found = await work
    except (TimeoutError, Refused, AssertionError) as error:
        found = {"faults": [f"broken off: {error!r}"]}
    return msgspec.structs.replace(planned, **found, seconds=round(time.monotonic() - began_s, 1))
