"""What ends a command: one line for a person, and where a log knows more, its end."""

from __future__ import annotations

from pathlib import Path

TAIL_LINES = 20


class Failure(Exception):
    """The servers cannot do what was asked; the text says what to mend."""


def tail(*logs: Path) -> str:
    """The last lines of the logs that there are, under their names."""
    found = [(log, log.read_text(errors="replace").splitlines()[-TAIL_LINES:]) for log in logs if log.exists()]
    return "".join(f"\n--- {log}\n" + "\n".join(lines) for log, lines in found if lines)
