"""The findings of checks, and their lines on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

FINDINGS_MAX = 20
"""The limit of lines for a check; a last line counts the others."""
Level = Literal["ok", "warning", "problem"]


class CheckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """`mend` is a command, or a sentence where no command mends it."""

    check: str
    level: Level
    text: str
    mend: str = ""


def ok(check: str, text: str) -> CheckResult:
    return CheckResult(check, "ok", text)


def warning(check: str, text: str, mend: str) -> CheckResult:
    return CheckResult(check, "warning", text, mend)


def problem(check: str, text: str, mend: str) -> CheckResult:
    return CheckResult(check, "problem", text, mend)


def line(finding: CheckResult) -> str:
    """The finding in one line."""
    mend = f" → {finding.mend}" if finding.mend else ""
    return f"{finding.level:<8} {finding.check}: {finding.text}{mend}"


def summary(findings: Sequence[CheckResult]) -> str:
    problems = sum(one.level == "problem" for one in findings)
    warnings = sum(one.level == "warning" for one in findings)
    return (
        f"{len(findings)} checks: {problems} {_plural('problem', problems)}, {warnings} {_plural('warning', warnings)}"
    )


def shown(found: list[CheckResult], nothing: CheckResult) -> list[CheckResult]:
    """The first findings of a check, or `nothing` if there are none."""
    if not found:
        return [nothing]
    more = len(found) - FINDINGS_MAX
    last = [msgspec.structs.replace(found[-1], text=f"and {more} more of these", mend="")] if more > 0 else []
    return [*found[:FINDINGS_MAX], *last]


def _plural(word: str, n: int) -> str:
    return word if n == 1 else f"{word}s"
