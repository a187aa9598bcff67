"""The sealed segments of a local directory of events, and the file that names the ingested ones to the service."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cns_common.events.files import SEALED
from cns_pipeline.location import located
from cns_pipeline.storage import LocalFiles

INGESTED = "ingested"
"""In the directory of events: a name in each line. The service removes these segments before unread ones."""


def sealed_segments(events: Path) -> set[str]:
    """The paths of all sealed segments, in whatever folders."""
    return {str(path) for path in events.rglob(f"*{SEALED}")}


def mark_ingested(events: Path, segments: Iterable[str]) -> None:
    """Name the ingested segments, of which some may be gone."""
    names = sorted({Path(path).name for path in sealed_segments(events).intersection(segments)})
    LocalFiles().write(located(events / INGESTED), "".join([f"{name}\n" for name in names]).encode())
