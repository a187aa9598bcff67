"""Segments on disk: their names, and how the segment of a dead writer is sealed.

2026-11-21/08/worker-1f0c…-000000000001.jsonl.new    being created: locked before it is renamed
2026-11-21/08/worker-1f0c…-000000000001.jsonl.open   locked by its writer; without a lock, its writer died
2026-11-21/08/worker-1f0c…-000000000001.jsonl        sealed: never written again
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec
import structlog

from cns_common.errors import UNREADABLE
from cns_common.events.schema import SCHEMA_VERSION, SegmentFact, SegmentSealed
from cns_common.file_writer import DatedFile, stored_file

SEALED = ".jsonl"
OPEN = ".jsonl.open"
NEW = ".jsonl.new"
_DIGITS = 12
AUDIT_SUFFIX = "-audit"
"""Ends the process name of segments with audit events."""

encoder = msgspec.json.Encoder()
log = structlog.get_logger(__name__)


class _Line(msgspec.Struct, frozen=True):
    """The fields of another process's line that sealing needs."""

    event: str
    boot: str
    sequence: int
    process: str = ""
    first_sequence: int = 0


_line_decoder = msgspec.json.Decoder(_Line)


def folder_at(at_ms: int) -> str:
    """The folder of a segment opened at `at_ms`. Folders sort by time."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d/%H}"


def segment_name(process: str, boot: str, first_sequence: int, again: int = 0) -> str:
    """A name is used once: `again` segments that began with the same number add as many leading zeros."""
    return f"{process}-{boot}-{first_sequence:0{_DIGITS + again}d}"


def origin_of(boot: str) -> bytes:
    """The beginning of every line of a boot, up to its sequence number."""
    return b'{"version":%d,"boot":"%s","sequence":' % (SCHEMA_VERSION, boot.encode())


def fact_line(boot: str, fact: SegmentFact) -> bytes:
    """The first or last line of a segment."""
    return origin_of(boot) + b"0," + encoder.encode(fact)[1:] + b"\n"


def seal_orphans(directory: Path, now_ms: int) -> int:
    """Seal the segments of dead writers; returns how many. One that cannot be read or written is left to the next
    call."""
    sealed = 0
    failed: list[tuple[Path, OSError]] = []
    for path in directory.glob(f"*/*/*{OPEN}"):
        try:
            sealed += _seal_orphan(path, now_ms)
        except OSError as error:
            failed.append((path, error))
    if failed:
        last, why = failed[-1]
        log.warning("event_segment.recovery_failed", segments=len(failed), last=str(last), error=str(why))
    return sealed


def stored_segments(directory: Path) -> Iterator[DatedFile]:
    """Sealed segments, and files that a writer died over before they were segments."""
    for path in chain.from_iterable([directory.glob(f"*/*/*{suffix}") for suffix in (SEALED, NEW)]):
        file = stored_file(path, f"{path.parent.parent.name}/{path.parent.name}")
        if file is not None:
            yield file


def open_segment(path: Path) -> BinaryIO | None:
    """Open a segment by the name that it had when it was listed; None if it was removed since."""
    for name in (path.name, path.name.removesuffix(OPEN) + SEALED):
        with contextlib.suppress(FileNotFoundError):
            return path.with_name(name).open("rb")
    return None


def has_audit_events(path: Path) -> bool:
    return f"{AUDIT_SUFFIX}-" in path.name


def _seal_orphan(path: Path, now_ms: int) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # its writer sealed it since
        return False
    with os.fdopen(fd, "r+b") as file:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # its writer runs
            return False
        if not _still_there(fd, path):
            return False
        written = file.read()
        whole_bytes = written.rfind(b"\n") + 1
        trailer = _trailer(written[:whole_bytes], len(written) - whole_bytes, now_ms)
        if trailer is not None:
            file.truncate(whole_bytes)
            file.seek(whole_bytes)
            file.write(trailer)
            file.flush()
        path.rename(path.with_name(path.name.removesuffix(OPEN) + SEALED))
    return True


def _trailer(whole: bytes, torn_bytes: int, now_ms: int) -> bytes | None:
    """The last line of an orphan. None: it has one, or the orphan is unreadable and the pipeline sets it aside."""
    lines = whole.splitlines()
    try:
        opened, last = _line_decoder.decode(lines[0]), _line_decoder.decode(lines[-1])
    except (IndexError, *UNREADABLE):
        return None
    if last.event == "segment.sealed":
        return None
    sealed = SegmentSealed(
        at_ms=now_ms,
        process=opened.process,
        first_sequence=opened.first_sequence,
        last_sequence=last.sequence or opened.first_sequence - 1,
        events=len(lines) - 1,
        torn_bytes=torn_bytes,
        recovered=True,
    )
    return fact_line(opened.boot, sealed)


def _still_there(fd: int, path: Path) -> bool:
    """Its writer may have sealed it between `open` and `flock`."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False
