"""The sealed segments of a local directory of events, and the file that tells the service which are ingested."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cns_common.events.files import SEALED
from cns_pipeline.location import located
from cns_pipeline.storage import LocalFiles

INGESTED = "ingested"
"""A file in the directory of events, with a name per line. The service removes these segments before others."""


def sealed_segments(events: Path) -> set[str]:
    """The paths of all sealed segments, in any folder."""
    return {str(path) for path in events.rglob(f"*{SEALED}")}


def mark_ingested(events: Path, segments: Iterable[str]) -> None:
    """Write the names of the ingested segments. Some may no longer exist."""
    names = sorted({Path(path).name for path in sealed_segments(events).intersection(segments)})
    LocalFiles().write(located(events / INGESTED), "".join([f"{name}\n" for name in names]).encode())
