"""A round of restarts: processes are killed, stopped and replaced by new code under the load of SDKs."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from random import Random

import msgspec

from faults.accounting.accounting import Account
from faults.accounting.arrivals import Arrivals
from faults.accounting.causes import (
    CLIENT_RETRY,
    CRASH_BEFORE_SETTLE,
    LEASE_OVER,
    MOVE_CUT_OFF,
    Causes,
    ClusterCauses,
    EmbeddedCauses,
)
from faults.accounting.ledger import NS_PER_S, Ledger
from faults.restarts.clients import SdkClients
from faults.restarts.forms import API_2, EMBEDDED, Form, running_form
from faults.results import RestartResult
from faults.service.drain import Drain
from faults.service.processes import SiteError, receiving
from faults.service.resources import RoundResources
from faults.service.wire import Refused
from tests.ports import free_port

KILLS = 25
"""In each form."""
PAUSE_S = (0.1, 1.5)
STOP_EVERY = 5
RESTART_EVERY = 8
LOAD_AFTER_S = 1.0
ROUND_TIMEOUT_S = 600.0
STORES = ("store", "api")
"""Processes that host the store: one that is replaced, even in order, leaves unsettled what workers delivered at that
time. A worker that is killed does so, too; an API process without the store does not."""
ACCEPTED = frozenset({CLIENT_RETRY, LEASE_OVER, CRASH_BEFORE_SETTLE, MOVE_CUT_OFF})
RECENT_NS = 10 * NS_PER_S
CLOCK_FOLLOWED_S = 1.2
"""Processes poll every second for jumps of the clock."""


class RestartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Kind and seed determine the pauses and which process is hit."""

    kind: str
    seed: int
    kills: int = KILLS


async def restart_round(plan: RestartPlan, directory: Path) -> RestartResult:
    began_s = time.monotonic()
    receiver_port, journal = free_port(), directory / "arrivals"
    try:
        with receiving(receiver_port, journal):
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                with running_form(plan.kind, directory) as form:
                    resources = await form.resources(receiver_port, journal)
                    ran = RestartRound(form, resources, plan)
                    await ran.run()
        done = ran.result(form.leftovers())
    except (TimeoutError, SiteError, Refused, AssertionError) as error:
        done = RestartResult(kind=plan.kind, seed=plan.seed, place=_place(plan), faults=[f"broken off: {error!r}"])
    return msgspec.structs.replace(done, seconds=round(time.monotonic() - began_s, 1))


class RestartRound:
    def __init__(self, form: Form, resources: RoundResources, plan: RestartPlan) -> None:
        self._form = form
        self._resources = resources
        self._plan = plan
        self._random = Random(f"{plan.kind}-{plan.seed}")
        self._ledger = ledger = Ledger()
        embedded = plan.kind in (EMBEDDED, API_2)
        self._causes: Causes = EmbeddedCauses(ledger) if embedded else ClusterCauses(ledger, ACCEPTED)
        self._arrivals = Arrivals(resources.journal)
        self._clients = SdkClients(resources, ledger, self._random)
        self._drain = Drain(self._clients, ledger, self._arrivals, self._account, CLOCK_FOLLOWED_S)
        self._next: list[str] = []  # each process in turn, in an order of its own each time
        self._replaced: list[tuple[int, str, str]] = []  # (time in ns, how, process)

    async def run(self) -> None:
        self._clients.start()
        wire = self._resources.wire()
        try:
            for number in range(1, self._plan.kills + 1):
                await self._replace("killed")
                if number % STOP_EVERY == 0:
                    await self._replace("stopped")
                if number % RESTART_EVERY == 0:
                    await self._restart()
            await asyncio.sleep(LOAD_AFTER_S)
            await self._clients.stop_sending()
            await self._drain.run(wire)
        finally:
            await self._clients.close()
            wire.close()

    async def _replace(self, how: str) -> None:
        await asyncio.sleep(self._random.uniform(*PAUSE_S))
        names = self._form.names()
        self._next = self._next or self._random.sample(names, len(names))
        name = self._next.pop()
        began_ns = await self._note(how, name)
        number = signal.SIGKILL if how == "killed" else signal.SIGTERM
        await asyncio.to_thread(self._form.replace, name, number)
        if name in STORES or (how == "killed" and not name.startswith("api-")):
            self._ledger.kills_ns.append(began_ns)
            self._ledger.recovered_ns.append(time.time_ns())

    async def _restart(self) -> None:
        await self._note("restarted", "all")
        await asyncio.to_thread(self._form.restart)

    async def _note(self, how: str, name: str) -> int:
        """Wait until it may be done. Returns when that is, in ns."""
        await self._clients.spare_last_attempts()
        self._clients.calls.done_last = f"{name} {how}"
        self._replaced.append((time.time_ns(), how, name))
        return self._replaced[-1][0]

    def _account(self) -> Account:
        return Account(self._resources, self._ledger, self._arrivals, self._causes)

    def result(self, leftovers: list[str]) -> RestartResult:
        resources, ledger, calls = self._resources, self._ledger, self._clients.calls
        account = self._account()
        topics = (resources.news, resources.ordered)
        came = {
            receipt.id
            for queue in (resources.news_queue, *resources.ordered_queues)
            for receipt in ledger.receipts_of(queue)
        }
        kills = [name for _, how, name in self._replaced if how == "killed"]
        return RestartResult(
            kind=self._plan.kind,
            seed=self._plan.seed,
            place=_place(self._plan),
            kills={name: kills.count(name) for name in sorted(set(kills))},
            stops=sum(how == "stopped" for _, how, _ in self._replaced),
            restarts=sum(how == "restarted" for _, how, _ in self._replaced),
            calls=calls.made.total(),
            operations=len(calls.made),
            failed=[f"{text}; {self._before(at_ns)}" for at_ns, text in calls.failed],
            repeated=calls.repeated,
            cut=dict(calls.cut),
            done_before=calls.done_before,
            messages=sum(ledger.acknowledged(queue) for queue in (resources.standard, resources.fifo)),
            notifications=sum(ledger.acknowledged(topic) for topic in topics),
            in_order=ledger.acknowledged(resources.ordered),
            deliveries=self._arrivals.count + len(came),
            duplicates={cause: n for cause, n in account.duplicates.items() if n},
            faults=account.faults + leftovers,
        )

    def _before(self, failed_ns: int) -> str:
        """What was replaced shortly before a call failed."""
        recent = [
            f"{name} {how} {(failed_ns - at_ns) / NS_PER_S:.1f} s before"
            for at_ns, how, name in self._replaced
            if 0 <= failed_ns - at_ns < RECENT_NS
        ]
        return ", ".join(recent)


def _place(plan: RestartPlan) -> str:
    return f"{plan.kills} kills"
