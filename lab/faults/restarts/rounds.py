"""A round of restarts: processes are killed, stopped and replaced by new code under the load of SDKs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from lab.faults.accounting.causes import CLIENT_RETRY, CRASH_BEFORE_SETTLE, LEASE_OVER, ClusterCauses, EmbeddedCauses
from lab.faults.accounting.ledger import NS_PER_S, Ledger
from lab.faults.restarts.clients import SdkClients
from lab.faults.restarts.forms import API_2, EMBEDDED, Form, running_form
from lab.faults.results import RestartResult
from lab.faults.service.resources import RoundResources
from lab.faults.service.round import Round, finish
from lab.harness.endpoints import running_receiver

KILLS = 25
"""In a round."""
PAUSE_S = (0.3, 1.5)
"""HAProxy looks five times a second whether a process is back."""
STOP_EVERY = 5
"""Kills between two stops of a process in order."""
RESTART_EVERY = 8
ROUND_TIMEOUT_S = 900.0
STORES = ("store", "api")
"""Processes that host the store: one that is replaced, even in order, leaves unsettled what workers delivered at that
time. A worker that is killed does so, too; an API process without the store does not."""
RECENT_NS = 10 * NS_PER_S


async def restart_round(kind: str, seed: int, kills: int, directory: Path) -> RestartResult:
    """`kind` and `seed` determine the pauses, and which process is replaced."""
    planned = RestartResult(kind=kind, seed=seed, place=f"{kills} kills", faults=[])
    return await finish(_restart_round(planned, kills, directory), ROUND_TIMEOUT_S, planned)


async def _restart_round(planned: RestartResult, kills: int, directory: Path) -> dict[str, Any]:
    journal = directory / "arrivals"
    with running_receiver("--journal", str(journal)) as receiver, running_form(planned.kind, directory) as form:
        resources = await asyncio.to_thread(form.resources, receiver, journal)
        ran = RestartRound(form, resources, planned, kills)
        await ran.load()
    return {**ran.counts(), "faults": ran.faults() + form.leftovers()}


class RestartRound(Round):
    def __init__(self, form: Form, resources: RoundResources, plan: RestartResult, kills: int) -> None:
        ledger, self._random = Ledger(), Random(f"{plan.kind}-{plan.seed}")
        accepted = frozenset({CLIENT_RETRY, LEASE_OVER, CRASH_BEFORE_SETTLE})
        embedded = plan.kind in (EMBEDDED, API_2)
        causes = EmbeddedCauses(ledger) if embedded else ClusterCauses(ledger, accepted)
        self._sdks = SdkClients(resources, ledger, self._random)
        super().__init__(resources, ledger, causes, self._sdks)
        self._form = form
        self._kills = kills
        self._next: list[str] = []  # each process in turn, in an order of its own each time
        self._replaced: list[tuple[int, str, str]] = []  # (time in ns, how, process)

    async def inject_faults(self) -> None:
        for number in range(1, self._kills + 1):
            await self._replace_one("killed", signal.SIGKILL)
            if number % STOP_EVERY == 0:
                await self._replace_one("stopped", signal.SIGTERM)
            if number % RESTART_EVERY == 0:
                await self._may("replaced", "all")
                await asyncio.to_thread(self._form.restart)

    async def _replace_one(self, how: str, number: signal.Signals) -> None:
        await asyncio.sleep(self._random.uniform(*PAUSE_S))
        names = self._form.names()
        self._next = self._next or self._random.sample(names, len(names))
        name = self._next.pop()
        await self._may(how, name)
        await asyncio.to_thread(self._form.replace, name, number)
        if name in STORES or (number == signal.SIGKILL and not name.startswith("api-")):
            self.ledger.kills_ns.append(self._replaced[-1][0])
            self.ledger.recovered_ns.append(time.time_ns())

    async def _may(self, how: str, name: str) -> None:
        """Return when it may be done: three kills within one call fail it at any service."""
        await self._sdks.spare_last_attempts()
        self._sdks.calls.done_last = f"{name} {how}"
        self._replaced.append((time.time_ns(), how, name))

    def counts(self) -> dict[str, Any]:
        calls, hows = self._sdks.calls, Counter(how for _, how, _ in self._replaced)
        return {
            "kills": Counter(name for _, how, name in self._replaced if how == "killed"),
            "stops": hows["stopped"],
            "restarts": hows["replaced"],
            "calls": calls.made.total(),
            "failed": len(calls.failed),
            "repeated": calls.repeated,
            "cut": calls.cut,
            "done_before": calls.done_before,
            **self.account().counts(),
        }

    def faults(self) -> list[str]:
        """A fault of a call ends with what was replaced shortly before."""
        failed = []
        for at_ns, text in self._sdks.calls.failed:
            before = [(at_ns - done_ns, f"{name} {how}") for done_ns, how, name in self._replaced if done_ns <= at_ns]
            recent = [f"{what} {ago / NS_PER_S:.1f} s before" for ago, what in before if ago < RECENT_NS]
            failed.append(f"failed call: {text}; {', '.join(recent)}")
        return failed + self.account().faults
