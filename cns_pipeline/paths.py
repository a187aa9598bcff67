"""Where the pipeline keeps what it makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """All in one directory, which can be removed: `ingest` makes it anew from the segments that are left."""

    out: Path

    @property
    def table(self) -> Path:
        return self.out / "events"

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint"

    @property
    def reports(self) -> Path:
        return self.out / "reports"
