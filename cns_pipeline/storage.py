"""Files of tables and results, on this machine or by URL on a file system of Hadoop.

    storage = Storage(spark)
    storage.write(paths.reports / "report.json", data)

Only URLs need Spark: `Storage(None)` serves local paths without Java.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.location import Location
from cns_pipeline.stored_file import NEW, FileStore, StoredFile, is_visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Storage(FileStore):
    """All locations. Each call goes to the file system of its location."""

    def __init__(self, spark: SparkSession | None) -> None:
        self._spark = spark
        self._local: FileStore = LocalFiles()
        self._hadoop: FileStore | None = None

    def exists(self, at: Location) -> bool:
        return self._store(at).exists(at)

    def names(self, directory: Location) -> list[str]:
        return self._store(directory).names(directory)

    def files(self, directory: Location) -> list[StoredFile]:
        return self._store(directory).files(directory)

    def modified_ms(self, at: Location) -> int:
        return self._store(at).modified_ms(at)

    def read(self, file: Location) -> bytes:
        return self._store(file).read(file)

    def write(self, file: Location, data: bytes) -> None:
        self._store(file).write(file, data)

    def create(self, file: Location, data: bytes) -> None:
        self._store(file).create(file, data)

    def rename(self, source: Location, target: Location) -> None:
        self._store(source).rename(source, target)

    def delete(self, at: Location) -> None:
        self._store(at).delete(at)

    def make_directory(self, directory: Location) -> None:
        self._store(directory).make_directory(directory)

    def sync(self, directory: Location) -> None:
        self._store(directory).sync(directory)

    def _store(self, at: Location) -> FileStore:
        if not at.scheme:
            return self._local
        if self._hadoop is None:
            if self._spark is None:
                raise StartError(f"{at} is a URL, which needs Spark: give a local directory", EXIT_DATA_UNUSABLE)
            from cns_pipeline.hadoop_files import HadoopFiles

            self._hadoop = HadoopFiles(self._spark)
        return self._hadoop


class LocalFiles(FileStore):
    def exists(self, at: Location) -> bool:
        return Path(at.text).exists()

    def names(self, directory: Location) -> list[str]:
        try:
            return sorted([path.name for path in Path(directory.text).iterdir()])
        except FileNotFoundError:
            return []

    def files(self, directory: Location) -> list[StoredFile]:
        root = Path(directory.text)
        found = [(path, str(path.relative_to(root))) for path in root.rglob("*") if path.is_file()]
        return [StoredFile(name, path.stat().st_size) for path, name in sorted(found) if is_visible(name)]

    def modified_ms(self, at: Location) -> int:
        return Path(at.text).stat().st_mtime_ns // 1_000_000

    def read(self, file: Location) -> bytes:
        return Path(file.text).read_bytes()

    def write(self, file: Location, data: bytes) -> None:
        written = self._write_new(file, data)
        written.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the file that is replaced
        written.replace(file.text)
        _sync(Path(file.text).parent)

    def create(self, file: Location, data: bytes) -> None:
        """Not atomic: the lock of the table excludes other writers."""
        if Path(file.text).exists():
            raise FileExistsError(file.text)
        self.write(file, data)

    def rename(self, source: Location, target: Location) -> None:
        Path(source.text).rename(target.text)

    def delete(self, at: Location) -> None:
        path = Path(at.text)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def make_directory(self, directory: Location) -> None:
        Path(directory.text).mkdir(parents=True, exist_ok=True)

    def sync(self, directory: Location) -> None:
        for root, _, names in os.walk(directory.text):
            for name in names:
                _sync(Path(root, name))
            _sync(Path(root))

    def _write_new(self, file: Location, data: bytes) -> Path:
        path = Path(file.text + NEW)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as written:
            written.write(data)
            written.flush()
            os.fsync(written.fileno())
        return path


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
