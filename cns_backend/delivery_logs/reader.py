"""Reads delivery status logs: the records of some log groups, of all processes, merged by time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from cns_backend.delivery_logs.writer import SUFFIX, folder_of


class LogEntry(NamedTuple):
    """`at_ms` is when the message was handed to the endpoint."""

    at_ms: int
    line: str


class _Notification(msgspec.Struct, frozen=True):
    timestamp: str


class _Delivery(msgspec.Struct, frozen=True, rename="camel"):
    dwell_time_ms: int


class _Record(msgspec.Struct, frozen=True):
    notification: _Notification
    delivery: _Delivery


_decoder = msgspec.json.Decoder(_Record)


class LogReader:
    """`groups` are names of log groups."""

    def __init__(self, directory: Path, groups: Sequence[str]) -> None:
        self._folders = [folder_of(directory, group) for group in groups]
        self._read_bytes: dict[Path, int] = {}

    def read(self, since_ms: int = 0) -> list[LogEntry]:
        """The records since the last call, by time."""
        return sorted(
            entry
            for folder in self._folders
            for path in folder.glob(f"*{SUFFIX}")
            for entry in _entries(self._lines(path))
            if entry.at_ms >= since_ms
        )

    def _lines(self, path: Path) -> list[bytes]:
        """The complete lines since the last call; the last line may be half written."""
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            # a writer truncates the file after a failed write
            start = min(self._read_bytes.get(path, 0), os.fstat(file.fileno()).st_size)
            file.seek(start)
            whole, newline, _ = file.read().rpartition(b"\n")
            self._read_bytes[path] = start + len(whole) + len(newline)
            return whole.splitlines()
        return []


def _entries(lines: Sequence[bytes]) -> Iterator[LogEntry]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, ValueError):  # skip lines that are no records
            record = _decoder.decode(line)
            published = datetime.fromisoformat(record.notification.timestamp).replace(tzinfo=UTC)
            yield LogEntry(int(published.timestamp() * 1000) + record.delivery.dwell_time_ms, line.decode())
