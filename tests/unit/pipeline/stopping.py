"""A file system whose user stops at a chosen step, as a killed process does."""

from __future__ import annotations

from pathlib import Path

from cns_pipeline.location import Location
from cns_pipeline.storage import LocalFiles
from cns_pipeline.stored_file import NEW


class Stopped(BaseException):
    """The process was killed here."""


class StoppingFiles(LocalFiles):
    """Counts steps: before each change, and in its midst. Stops at step number `steps`, from 0."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def write(self, file: Location, data: bytes) -> None:
        self._step()
        if self._left == 0:
            Path(file.parent.text).mkdir(parents=True, exist_ok=True)
            Path(file.text + NEW).write_bytes(data[: len(data) // 2])
        self._step()
        super().write(file, data)

    def delete(self, at: Location) -> None:
        if Path(at.text).exists():
            self._step()
            first = next((path for path in sorted(Path(at.text).rglob("*")) if path.is_file()), None)
            if self._left == 0 and first is not None:
                first.unlink()
            self._step()
        super().delete(at)

    def _step(self) -> None:
        if self._left == 0:
            raise Stopped
        self._left -= 1
