"""The error that ends a command, and the ends of log files for its message."""

from __future__ import annotations

from pathlib import Path

TAIL_LINES = 20


class Failure(Exception):
    """The command cannot be done; the text says what to correct."""


def tail(*logs: Path) -> str:
    """Return the last lines of the existing logs, under their names."""
    found = [(log, log.read_text(errors="replace").splitlines()[-TAIL_LINES:]) for log in logs if log.exists()]
    return "".join(f"\n--- {log}\n" + "\n".join(lines) for log, lines in found if lines)
