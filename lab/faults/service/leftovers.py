"""The state of a stopped service: an intact database, no job in any internal queue, and no error in its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from cns.queue_port.inline import REFS

TOTALS = (
    "SELECT queue, total, (SELECT count(*) FROM slots WHERE slots.line = lines.line) AS found FROM lines"
    " WHERE doomed = 0 AND total <> found"
)
LEFT = "SELECT total FROM lines WHERE queue = ? AND doomed = 0"
COMPLAINTS = ("Traceback", "loop.crashed", "job.crashed", "job.quarantined", "notification.dropped")
LINES_SHOWN = 30
TEXT_SHOWN = 3_000


def find_leftovers(data: Path, output: str) -> list[str]:
    """The faults found; none if the service left nothing behind."""
    connection = apsw.Connection(str(data / "store.db"), flags=apsw.SQLITE_OPEN_READWRITE)
    faults = [f"integrity: {line}" for (line,) in _rows(connection, "PRAGMA integrity_check") if line != "ok"]
    faults += [f"counts: {queue} says {total}, has {n}" for queue, total, n in _rows(connection, TOTALS)]
    for name, ref in REFS.items():
        faults += [
            f"left: {total} in the internal queue {name}" for (total,) in _rows(connection, LEFT, ref.id) if total
        ]
    connection.close()
    return faults + find_complaints(output.splitlines())


def find_complaints(lines: list[str]) -> list[str]:
    starts = [number for number, line in enumerate(lines) if any(word in line for word in COMPLAINTS)]
    return ["complaint: " + "\n".join(lines[start : start + LINES_SHOWN])[:TEXT_SHOWN] for start in starts]


def _rows(connection: apsw.Connection, statement: str, *bindings: str) -> list[Any]:
    return connection.execute(statement, bindings).fetchall()
