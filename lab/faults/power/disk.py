"""The possible contents of a disk after a power cut: all synced writes, and a random part of the others."""

from __future__ import annotations

from pathlib import Path
from random import Random

from lab.faults.power.recording_vfs import DirectorySync, EntryChange, Log, Sync, Truncate, Write

SECTOR_BYTES = 512
"""A disk writes a sector whole or not at all."""
ALL_WRITTEN_SHARES = (0.05, 0.5, 0.95)
"""The probability that a sector has its last content; a cut picks one of these."""


class _File:
    def __init__(self, content: bytes = b"") -> None:
        self.synced = bytearray(content)
        self.pending: list[tuple[int, Write | Truncate]] = []

    def sync(self, since: int) -> None:
        for position, change in self.pending:
            if position < since:
                _apply(self.synced, change)
        self.pending = [pair for pair in self.pending if pair[0] >= since]

    def torn(self, random: Random) -> bytes:
        """The synced content with some later sectors: each as it was at a random time since the sync."""
        final = bytearray(self.synced)
        sizes = [len(final)]
        versions: dict[int, list[bytes]] = {}
        for _, change in self.pending:
            before = len(final)
            _apply(final, change)
            sizes.append(len(final))
            first, last = _span(change, before, len(final))
            for sector in range(first // SECTOR_BYTES, -(-last // SECTOR_BYTES)):
                content = bytes(final[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])
                versions.setdefault(sector, []).append(content)
        share = random.choice(ALL_WRITTEN_SHARES)
        size = sizes[-1] if random.random() < share else random.choice(sizes)
        kept = bytearray(self.synced.ljust(max(sizes), b"\0"))
        for sector, contents in versions.items():
            start = sector * SECTOR_BYTES
            old = bytes(self.synced[start : start + SECTOR_BYTES])
            chosen = contents[-1] if random.random() < share else random.choice([old, *contents])
            kept[start : start + len(chosen)] = chosen
        return bytes(kept[:size])


class Disk:
    """The disk at a position of a log. Positions must rise."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._position = 0
        self._files = {file: _File(log.base[name]) for file, name in enumerate(log.base)}
        self._entries: dict[str, int] = {name: file for file, name in enumerate(log.base)}
        self._pending_entries: list[tuple[int, EntryChange]] = []

    def advance(self, position: int) -> None:
        for at in range(self._position, position):
            record = self._log.records[at]
            match record:
                case Write() | Truncate():
                    self._files[record.file].pending.append((at, record))
                case Sync():
                    self._files[record.file].sync(record.since)
                case EntryChange():
                    if record.file is not None:
                        self._files[record.file] = _File()
                    self._pending_entries.append((at, record))
                case DirectorySync():
                    self._sync_directory(record.since)
        self._position = max(position, self._position)

    def synced(self) -> dict[str, bytes]:
        """The files after a cut here, if only synced writes reached the disk."""
        return {name: bytes(self._files[file].synced) for name, file in self._entries.items()}

    def torn(self, random: Random) -> dict[str, bytes]:
        """The files after a cut here, if the disk also wrote a random part of the rest, in any order."""
        entries = dict(self._entries)
        names = dict.fromkeys(link.name for _, link in self._pending_entries)
        for name in names:
            later = [link.file for _, link in self._pending_entries if link.name == name]
            chosen = random.choice([entries.get(name), *later])
            if chosen is None:
                entries.pop(name, None)
            else:
                entries[name] = chosen
        return {name: self._files[file].torn(random) for name, file in entries.items()}

    def _sync_directory(self, since: int) -> None:
        for position, link in self._pending_entries:
            if position >= since:
                continue
            if link.file is None:
                self._entries.pop(link.name, None)
            else:
                self._entries[link.name] = link.file
        self._pending_entries = [pair for pair in self._pending_entries if pair[0] >= since]


def restore(files: dict[str, bytes], directory: Path) -> None:
    """Write the files into `directory`."""
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)


def _apply(content: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    content.extend(bytes(max(change.offset - len(content), 0)))
    content[change.offset : change.offset + len(change.data)] = change.data


def _span(change: Write | Truncate, before: int, after: int) -> tuple[int, int]:
    """The bytes that `change` touched, in a file of `before` and then `after` bytes."""
    if isinstance(change, Write):
        return min(change.offset, before), change.offset + len(change.data)
    return min(change.size, before), max(after, before)
