"""Counts the Cassandra statements that a service sends, in its processes: all, and conditional ones (Paxos rounds).

Cassandra's own counters tell conditional statements from others only over JMX. Each try and each batch counts as one,
those of background work as well.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

OUT_VARIABLE = "STATEMENTS_OUT"
ROOT = Path(__file__).parents[2]
CONDITION = " IF "
_TOTALS = Struct("<qq")


class Statements(NamedTuple):
    """Totals since the processes started."""

    total: int = 0
    conditional: int = 0

    def since(self, before: Statements) -> Statements:
        return Statements(self.total - before.total, self.conditional - before.conditional)


def statements_in(out: Path) -> Statements:
    """The totals of all processes, also of those that have ended."""
    totals = [_TOTALS.unpack(path.read_bytes()) for path in out.iterdir()]
    return Statements(*(sum(values) for values in zip(*totals, strict=True)))


def environment(out: Path) -> dict[str, str]:
    """Environment variables that make a server and its descendants count, by the `sitecustomize` of `counting`."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [str(Path(__file__).parent / "counting"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {OUT_VARIABLE: str(out.absolute()), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


class StatementCounter:
    """Keeps its totals in a memory-mapped file, so that other processes can read them at any time."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._open()
        os.register_at_fork(after_in_child=self._open)  # the supervisor forks the processes that work

    def _open(self) -> None:
        path = self._out / str(os.getpid())
        path.write_bytes(bytes(_TOTALS.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _TOTALS.size)
        self._totals = [0, 0]

    def count(self, *, total: int = 0, conditional: int = 0) -> None:
        self._totals[0] += total
        self._totals[1] += conditional
        _TOTALS.pack_into(self._shared, 0, *self._totals)


def start_if_asked() -> None:
    if out := os.environ.get(OUT_VARIABLE):
        _count_statements_of_sessions(StatementCounter(Path(out)))


def _count_statements_of_sessions(counter: StatementCounter) -> None:
    from cns_common.cassandra import session

    send, run_conditional_batch = session.Cassandra._send, session.Cassandra.run_conditional_batch

    def counted(cassandra: session.Cassandra, statement: Any, limit_s: float, node: object = None) -> Any:
        prepared = getattr(statement, "prepared_statement", None)  # a batch has none, and keeps no texts
        counter.count(total=1, conditional=int(prepared is not None and CONDITION in prepared.query_string))
        return send(cassandra, statement, limit_s, node)

    async def counted_batch(cassandra: session.Cassandra, parts: Any) -> bool:
        counter.count(conditional=1)
        return await run_conditional_batch(cassandra, parts)

    # only in processes that the bench started
    setattr(session.Cassandra, send.__name__, counted)
    setattr(session.Cassandra, run_conditional_batch.__name__, counted_batch)
