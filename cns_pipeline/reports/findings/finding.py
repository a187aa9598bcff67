"""A finding: one sentence about one fault, with its severity and weight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """The severity of a finding, most severe first."""

    LOST = 1  # not delivered, and given up
    FAILED = 2  # not delivered, or not yet
    SLOW = 3  # delivered late
    REPEATED = 4  # delivered more than once
    UNSURE = 5  # the report itself may be incomplete


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportIssue:
    """`subject` and `text` form a sentence; both may contain untrusted text. `weight`: the number of affected items."""

    kind: str
    severity: Severity
    weight: int
    subject: str
    text: str
    section: str  # section of the page with the details

    def __str__(self) -> str:
        return f"{self.subject} {self.text}"
