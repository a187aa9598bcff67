"""The audit events that a service wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cns_common.events.files import OPEN, SEALED
from lab.harness.clustered import Clustered
from lab.harness.running import Up
from lab.harness.service import Service

AuditLine = dict[str, Any]


def data_folders(service: Service) -> list[Path]:
    """The data directories of its processes."""
    if isinstance(service, Clustered):
        processes = (*service.cluster.apis, *service.cluster.workers)
        return [Path(process.environment["CNS_DATA"]) for process in processes]
    assert isinstance(service, Up)
    return [service.data]


def audit_lines(folders: Sequence[Path]) -> Iterator[AuditLine]:
    """The events in the order of files and lines, without a last line that a killed process cut off."""
    for folder in folders:
        paths = (folder / "events").glob("*/*/*-audit-*.jsonl*")
        for segment in sorted({path.with_name(path.name.partition(".")[0]) for path in paths}):
            for line in _content(segment).splitlines(keepends=True):
                event = json.loads(line) if line.endswith(b"\n") else {}
                if "queue" in event:
                    yield event


def _content(segment: Path) -> bytes:
    """The segment's bytes, also when its writer seals (renames) it since it was listed."""
    for suffix in (OPEN, SEALED):
        with suppress(FileNotFoundError):
            return segment.with_name(segment.name + suffix).read_bytes()
    return b""
