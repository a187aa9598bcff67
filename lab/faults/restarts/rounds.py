"""A round of restarts: processes are killed, stopped and replaced by new code under the load of SDKs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from lab.faults.accounting.accounting import Account
from lab.faults.accounting.arrivals import Arrivals
from lab.faults.accounting.causes import CLIENT_RETRY, CRASH_BEFORE_SETTLE, LEASE_OVER, ClusterCauses, EmbeddedCauses
from lab.faults.accounting.ledger import NS_PER_S, Ledger
from lab.faults.restarts.clients import SdkClients
from lab.faults.restarts.forms import API_2, EMBEDDED, Form, running_form
from lab.faults.results import RestartResult
from lab.faults.service.drain import Drain
from lab.faults.service.processes import SiteError, receiving
from lab.faults.service.resources import RoundResources
from lab.faults.service.wire import Refused
from lab.harness.ports import free_port

KILLS = 25
"""In a round."""
PAUSE_S = (0.3, 1.5)
"""HAProxy looks five times a second whether a process is back."""
STOP_EVERY = 5
"""Kills between two stops of a process in order."""
RESTART_EVERY = 8
LOAD_AFTER_S = 1.0
ROUND_TIMEOUT_S = 900.0
STORES = ("store", "api")
"""Processes that host the store: one that is replaced, even in order, leaves unsettled what workers delivered at that
time. A worker that is killed does so, too; an API process without the store does not."""
RECENT_NS = 10 * NS_PER_S
CLOCK_FOLLOWED_S = 1.2
"""Processes poll every second for jumps of the clock."""


async def restart_round(kind: str, seed: int, kills: int, directory: Path) -> RestartResult:
    """`kind` and `seed` determine the pauses, and which process is replaced."""
    began_s = time.monotonic()
    place, receiver_port, journal = f"{kills} kills", free_port(), directory / "arrivals"
    try:
        with receiving(receiver_port, journal):
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                with running_form(kind, directory) as form:
                    ran = RestartRound(form, await form.resources(receiver_port, journal), kind, seed)
                    await ran.run(kills)
        done = RestartResult(kind=kind, seed=seed, place=place, **ran.counts(), faults=ran.faults() + form.leftovers())
    except (TimeoutError, SiteError, Refused, AssertionError) as error:
        done = RestartResult(kind=kind, seed=seed, place=place, faults=[f"broken off: {error!r}"])
    return msgspec.structs.replace(done, seconds=round(time.monotonic() - began_s, 1))


class RestartRound:
    def __init__(self, form: Form, resources: RoundResources, kind: str, seed: int) -> None:
        self._form = form
        self._resources = resources
        self._random = Random(f"{kind}-{seed}")
        self._ledger = Ledger()
        self._causes = (
            EmbeddedCauses(self._ledger)
            if kind in (EMBEDDED, API_2)
            else ClusterCauses(self._ledger, frozenset({CLIENT_RETRY, LEASE_OVER, CRASH_BEFORE_SETTLE}))
        )
        self._arrivals = Arrivals(resources.journal)
        self._clients = SdkClients(resources, self._ledger, self._random)
        self._drain = Drain(self._clients, self._ledger, self._arrivals, self._account, CLOCK_FOLLOWED_S)
        self._next: list[str] = []  # each process in turn, in an order of its own each time
        self._replaced: list[tuple[int, str, str]] = []  # (time in ns, how, process)

    async def run(self, kills: int) -> None:
        self._clients.start()
        wire = self._resources.wire()
        try:
            for number in range(1, kills + 1):
                await self._replace_one("killed", signal.SIGKILL)
                if number % STOP_EVERY == 0:
                    await self._replace_one("stopped", signal.SIGTERM)
                if number % RESTART_EVERY == 0:
                    await self._may("replaced", "all")
                    await asyncio.to_thread(self._form.restart)
            await asyncio.sleep(LOAD_AFTER_S)
            await self._clients.stop_sending()
            await self._drain.run(wire)
        finally:
            await self._clients.close()
            wire.close()

    async def _replace_one(self, how: str, number: signal.Signals) -> None:
        await asyncio.sleep(self._random.uniform(*PAUSE_S))
        names = self._form.names()
        self._next = self._next or self._random.sample(names, len(names))
        name = self._next.pop()
        await self._may(how, name)
        await asyncio.to_thread(self._form.replace, name, number)
        if name in STORES or (number == signal.SIGKILL and not name.startswith("api-")):
            self._ledger.kills_ns.append(self._replaced[-1][0])
            self._ledger.recovered_ns.append(time.time_ns())

    async def _may(self, how: str, name: str) -> None:
        """Return when it may be done: three kills within one call fail it at any service."""
        await self._clients.spare_last_attempts()
        self._clients.calls.done_last = f"{name} {how}"
        self._replaced.append((time.time_ns(), how, name))

    def _account(self) -> Account:
        return Account(self._resources, self._ledger, self._arrivals, self._causes)

    def counts(self) -> dict[str, Any]:
        calls, hows = self._clients.calls, Counter(how for _, how, _ in self._replaced)
        return {
            "kills": Counter(name for _, how, name in self._replaced if how == "killed"),
            "stops": hows["stopped"],
            "restarts": hows["replaced"],
            "calls": calls.made.total(),
            "failed": len(calls.failed),
            "repeated": calls.repeated,
            "cut": calls.cut,
            "done_before": calls.done_before,
            **self._account().counts(),
        }

    def faults(self) -> list[str]:
        """A fault of a call ends with what was replaced shortly before."""
        failed = []
        for at_ns, text in self._clients.calls.failed:
            before = [(at_ns - done_ns, f"{name} {how}") for done_ns, how, name in self._replaced if done_ns <= at_ns]
            recent = [f"{what} {ago / NS_PER_S:.1f} s before" for ago, what in before if ago < RECENT_NS]
            failed.append(f"failed call: {text}; {', '.join(recent)}")
        return failed + self._account().faults
