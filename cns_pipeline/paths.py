"""The directories of the pipeline's output."""

from __future__ import annotations

from pathlib import Path

from cns_pipeline.location import Location, located


class PipelinePaths:
    """The directories below `out`. They may be deleted: `ingest` rebuilds them from the segments that still exist."""

    __slots__ = ("out",)

    def __init__(self, out: Location | Path | str) -> None:
        self.out = located(out)

    @property
    def table(self) -> Location:
        return self.out / "events"

    @property
    def checkpoint(self) -> Location:
        return self.out / "checkpoint"

    @property
    def source(self) -> Location:
        """The file with the directory of events that the checkpoint belongs to."""
        return self.out / "source"

    @property
    def archive(self) -> Location:
        """The archive table. It may have messages that the service no longer has, so it cannot be rebuilt in full."""
        return self.out / "archive"

    @property
    def reports(self) -> Location:
        return self.out / "reports"

    @property
    def health(self) -> Location:
        return self.out / "health"

    @property
    def audit(self) -> Location:
        return self.out / "audit"
