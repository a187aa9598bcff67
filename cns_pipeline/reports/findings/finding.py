"""A finding: one sentence about one fault, and how much it weighs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """The order of findings: what was lost comes first."""

    LOST = 1  # no subscriber gets it any more
    FAILED = 2  # not delivered, or not yet
    SLOW = 3  # delivered late
    REPEATED = 4  # delivered more than once
    UNSURE = 5  # the report itself may be incomplete


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportIssue:
    """`subject` and `text` make a sentence; both may have foreign text. `weight` counts what is affected."""

    kind: str
    severity: Severity
    weight: int
    subject: str
    text: str
    section: str  # of the page: where the details are

    def __str__(self) -> str:
        return f"{self.subject} {self.text}"
