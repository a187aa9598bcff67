"""The directories of the pipeline's output."""

from __future__ import annotations

from pathlib import Path

from cns_pipeline.location import Location, located


class PipelinePaths:
    """The places below `out`, which may be removed: `ingest` makes them again from the remaining segments."""

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
        """Names the directory of events that the checkpoint is of."""
        return self.out / "source"

    @property
    def archive(self) -> Location:
        """The archive table. It outlives the service's own archives, and is made again only from what these have."""
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
