"""A disk that can be full or fail: an SQLite VFS over the real one."""

from __future__ import annotations

import uuid

import apsw


class FaultyDisk(apsw.VFS):
    """While `full`, writes fail as on a full disk; while `broken`, syncs fail. `only`: the suffix of affected files."""

    def __init__(self) -> None:
        self.vfs = f"faulty-{uuid.uuid4()}"
        self.full = False
        self.broken = False
        self.only = "-wal"
        self.refused = 0
        super().__init__(self.vfs, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def hits(self, name: str, fault: bool) -> bool:
        hit = fault and name.endswith(self.only)
        self.refused += hit
        return hit


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.hits(self._name, self._disk.full):
            raise apsw.FullError("no space left on device")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self._disk.hits(self._name, self._disk.broken):
            raise apsw.IOError("fsync failed")
        super().xSync(flags)
