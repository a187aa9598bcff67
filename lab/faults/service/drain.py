"""The drain of a round: wait until nothing arrives; move the test clock past every lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from lab.faults.accounting.accounting import Account
from lab.faults.accounting.arrivals import Arrivals
from lab.faults.accounting.ledger import Ledger
from lab.faults.service.clients import LoadClients
from lab.faults.service.resources import JUMP_S
from lab.faults.service.wire import OutcomeUnknown, Wire

JUMPS_MAX = 24
"""A jump takes three seconds or more. What a killed process wrote last comes into Redis when the process is found dead,
12 to 18 seconds after the kill, and later on a busy machine: the consumers run until then."""
QUIET_S = 2.0
"""After this time without arrivals, missing messages wait for a lease to end. A worker settles after one second; the
visibility timeout of the queue with a redrive policy is one second."""
FINAL_POLL_S = 1.0
POLL_INTERVAL_S = 0.02


class Drain:
    """`followed_s` is the time in which all processes follow a jump of the clock."""

    def __init__(
        self,
        clients: LoadClients,
        ledger: Ledger,
        arrivals: Arrivals,
        account: Callable[[], Account],
        followed_s: float,
    ) -> None:
        self._clients = clients
        self._ledger = ledger
        self._arrivals = arrivals
        self._account = account
        self._followed_s = followed_s

    async def run(self, wire: Wire, is_empty: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Return when every acknowledged message was received and the service is empty, or after `JUMPS_MAX`."""
        for _ in range(JUMPS_MAX):
            if await self._quiet(QUIET_S) and (is_empty is None or self._clients.failed() or await is_empty()):
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
            if self._arrivals.read() or len(self._ledger.receipts) != seen:
                last_s, seen = time.monotonic(), len(self._ledger.receipts)
            if self._clients.failed():
                return True  # `close` raises its exception
            await asyncio.sleep(POLL_INTERVAL_S)
        return not self._account().missing

    async def _jump(self, wire: Wire) -> None:
        """Move the clock past every lease. No client holds a message meanwhile."""
        await self._clients.pause()
        self._ledger.jumps_ns.append(time.time_ns())
        await advance(wire, JUMP_S)
        await asyncio.sleep(self._followed_s)
        self._clients.resume()


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
