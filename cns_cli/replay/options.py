"""The options of a replay, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cns.filters.model import Scope
from cns_pipeline.period import Period


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """`period_text`: the options of the period as given, so that `-24h` names the same replay an hour later."""

    topic: str  # ARN
    target: str  # ARN of a subscription or topic; '' only in a dry run
    period: Period
    period_text: tuple[str, str, str]
    filter: str
    scope: Scope
    table: Path | None  # the pipeline's output directory; None: the live archive
    rate_per_s: float
    dry_run: bool

    @property
    def identity(self) -> str:
        """The text that identifies a replay: the same command continues it, at any rate."""
        named = {
            "topic": self.topic,
            "to": self.target,
            "period": self.period_text,
            "filter": self.filter,
            "scope": self.scope.value,
            "from_table": str(self.table.absolute()) if self.table else "",
            "raw": False,  # an option of earlier versions, whose replays continue
        }
        return msgspec.json.encode(named).decode()
