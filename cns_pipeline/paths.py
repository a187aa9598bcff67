"""The directories of the pipeline's output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PipelinePaths:
    """The paths below `out`, which may be removed: `ingest` makes them again from the remaining segments."""

    out: Path

    @property
    def table(self) -> Path:
        return self.out / "events"

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint"

    @property
    def source(self) -> Path:
        """Names the directory of events that the checkpoint is of."""
        return self.out / "source"

    @property
    def writing(self) -> Path:
        return self.out / "writing"

    @property
    def reports(self) -> Path:
        return self.out / "reports"
