"""The table of causes: whole, and the one that operators read."""

from __future__ import annotations

import re
from pathlib import Path

from cns.delivery.failure_causes import CAUSES, Ending
from cns.endpoints.outcome import Cause

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"


def test_each_cause_has_words() -> None:
    assert set(CAUSES) == {*Cause, *Ending}
    assert len({one.title for one in CAUSES.values()}) == len(CAUSES)


def test_operators_read_the_same_words() -> None:
    table = OPERATIONS.read_text().partition("| code | in words |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (.*) \|$", table, re.MULTILINE)
    assert rows == [(code, one.title, one.advice, one.retry) for code, one in CAUSES.items()]
