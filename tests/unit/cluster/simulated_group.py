"""Processes of a group on machines of their own, and one partition in Cassandra, whose rows expire by true time. Each
statement is applied, and each answer arrives, when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.cluster.lease import LeaseTimes
from cns_common.cluster.membership import MemberRows
from cns_common.cluster.view import View, ViewRows
from cns_common.errors import StoreUnavailable
from tests.machine_clocks import MachineClocks

TTL_S, TIMES = 6, LeaseTimes(certain_ms=4_000, renew_ms=1_500)
MS = 1_000_000
MEMBERS = MemberRows(Statement("write"), Statement("remove"), TTL_S, TIMES)
VIEW = ViewRows(Statement("read"), Statement("confirm"), Statement("begin first"), Statement("begin next"))


class Partition:
    """A decision is visible to a process's reads some time after it was made; a conditional write sees it at once."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._decided: tuple[int | None, str | None] = None, None
        self._seen: dict[str, tuple[int | None, str | None]] = {}
        self._members: dict[str, tuple[int, int, str]] = {}  # until, epoch, what it says

    def apply(self, process: str, statement: Statement, values: tuple[Any, ...]) -> list[Row] | bool:
        match statement.cql, values:
            case "write", (_, _, epoch, says, ttl_s):
                self._members[process] = (self.now_ms + ttl_s * 1_000, epoch, says)
            case "remove", _:
                self._members.pop(process, None)
            case "read", _:
                living = [(p, epoch, says) for p, (until, epoch, says) in self._members.items() if until > self.now_ms]
                decided = self._seen.get(process, (None, None))
                return [(*decided, *one) for one in living] or [(*decided, None, None, None)]
            case "confirm", (epoch, _, _):
                return bool(self._decided[0] == epoch)
            case "begin first", (epoch, decision, _):
                return self._begin(epoch, decision, None)
            case "begin next", (epoch, decision, _, before):
                return self._begin(epoch, decision, before)
        return []

    def _begin(self, epoch: int, decision: str, before: int | None) -> bool:
        if self._decided[0] != before:
            return False
        self._decided = epoch, decision
        return True

    def show_to(self, processes: Sequence[str]) -> None:
        """Let the reads of these processes see the decision."""
        for process in processes:
            self._seen[process] = self._decided


class SimulatedCassandra(Cassandra):
    """One process's session."""

    def __init__(self, process: str, partition: Partition) -> None:
        self._process = process
        self._partition = partition
        self._waiting: tuple[Callable[[], Any], asyncio.Future[Any]] | None = None
        self._answer: tuple[Any, asyncio.Future[Any]] | None = None

    @property
    def activation(self) -> int:
        return 0

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        rows: list[Row] = await self._ask(statement, values)
        return rows

    async def run_conditional(self, statement: Statement, *values: object) -> bool:
        applied: bool = await self._ask(statement, values)
        return applied

    async def _ask(self, statement: Statement, values: tuple[Any, ...]) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._waiting = (lambda: self._partition.apply(self._process, statement, values)), answer
        return await answer

    def go_on(self) -> bool:
        """Apply the statement that waits, or deliver its answer. Returns whether there was one."""
        if self._answer is not None:
            result, future = self._answer
            self._answer = None
            future.set_result(result)
        elif self._waiting is not None:
            apply, future = self._waiting
            self._waiting = None
            self._answer = apply(), future
        else:
            return False
        return True


class QuickCassandra(SimulatedCassandra):
    """Applies each statement at once, while `going_on` is set, and fails the next few."""

    def __init__(self, process: str, partition: Partition) -> None:
        super().__init__(process, partition)
        self.statements = 0
        self.failures = 0
        self.holds = ""
        """The only statement that waits for `going_on`; '': each does."""
        self.going_on = asyncio.Event()
        self.going_on.set()
        self.takes: Callable[[], object] = lambda: None
        """Called during each statement."""

    async def _ask(self, statement: Statement, values: tuple[Any, ...]) -> Any:
        self.statements += 1
        if not self.holds or statement.cql == self.holds:
            await self.going_on.wait()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        self.takes()
        return self._partition.apply(self._process, statement, values)


class Process:
    def __init__(self, name: str, partition: Partition) -> None:
        self.machine = MachineClocks()
        self.cassandra = SimulatedCassandra(name, partition)
        clock = self.machine.clock()
        self.view = View(self.cassandra, clock, VIEW, MEMBERS, name, "view")
        self.opened = 0
        """The epoch in which it does what the epoch allows."""
        self.proposes = False
        self._work: asyncio.Task[object] | None = None

    @property
    def acts(self) -> bool:
        return bool(self.opened) and self.view.is_certain

    async def step(self) -> None:
        """Go on with the call under way, or begin the next."""
        self.cassandra.go_on()
        if self._work is None:
            self._work = asyncio.create_task(self._propose() if self.proposes else self._renew())
        await self._turn()

    async def _propose(self) -> None:
        self.proposes = False
        await self.view.propose("decided")

    async def _renew(self) -> None:
        state = await self.view.renew()
        if state.epoch != self.view.epoch:
            self.opened = 0
            self.view.act_by(state.epoch)
        elif state.acted_on_by_all:
            self.opened = self.view.epoch

    async def _turn(self) -> None:
        for _ in range(4):  # as many hand-overs as there are between an answer and the next statement
            await asyncio.sleep(0)
        if self._work is not None and self._work.done():
            self._work.result()
            self._work = None

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
