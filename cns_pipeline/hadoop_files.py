"""Files behind URLs, by Hadoop's FileSystem in the session's Java process: file, hdfs, s3a, viewfs, …

Files appear atomically: by a rename where that is atomic; in an object store when the file is closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from cns_pipeline.location import Location
from cns_pipeline.stored_file import NEW, FileStore, StoredFile, is_visible

OBJECT_STORES = frozenset({"s3a", "s3", "gs"})
CREATE_ONLY = "fs.option.create.conditional.overwrite"
"""Hadoop's option for object stores that can refuse to overwrite an object."""
_MISSING = "java.io.FileNotFoundException"
_THERE = "org.apache.hadoop.fs.FileAlreadyExistsException"

Java = Any
"""An object in the Java process; py4j has no types."""


class HadoopFiles(FileStore):
    def __init__(self, spark: SparkSession) -> None:
        context: Java = spark.sparkContext
        self._gateway: Java = context._gateway
        self._hadoop: Java = context._jvm.org.apache.hadoop
        self._settings: Java = context._jsc.hadoopConfiguration()

    def exists(self, at: Location) -> bool:
        system, path = self._open(at)
        return bool(system.exists(path))

    def names(self, directory: Location) -> list[str]:
        system, path = self._open(directory)
        try:
            with _python_errors(directory):
                return sorted(str(status.getPath().getName()) for status in system.listStatus(path))
        except FileNotFoundError:
            return []

    def files(self, directory: Location) -> list[StoredFile]:
        system, path = self._open(directory)
        root = str(system.makeQualified(path))
        found = []
        with _python_errors(directory):
            statuses = system.listFiles(path, True)
            while statuses.hasNext():
                status = statuses.next()
                name = str(status.getPath()).removeprefix(root).lstrip("/")
                found.append(StoredFile(name, int(status.getLen())))
        return sorted([file for file in found if is_visible(file.path)], key=lambda file: file.path)

    def modified_ms(self, at: Location) -> int:
        system, path = self._open(at)
        with _python_errors(at):
            return int(system.getFileStatus(path).getModificationTime())

    def read(self, file: Location) -> bytes:
        system, path = self._open(file)
        with _python_errors(file):
            stream = system.open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, file: Location, data: bytes) -> None:
        system, path = self._open(file)
        if file.scheme in OBJECT_STORES:
            _fill(system.create(path, True), data)
            return
        written = self._write_new(file, data)
        renames = self._hadoop.fs.Options.Rename
        options = self._gateway.new_array(renames, 1)
        options[0] = renames.OVERWRITE
        self._hadoop.fs.FileContext.getFileContext(path.toUri(), self._settings).rename(written, path, options)

    def create(self, file: Location, data: bytes) -> None:
        system, path = self._open(file)
        with _python_errors(file):
            if file.scheme in OBJECT_STORES:
                _fill(system.createFile(path).opt(CREATE_ONLY, True).overwrite(False).recursive().build(), data)
                return
        written = self._write_new(file, data)
        if system.exists(path) or not system.rename(written, path):
            system.delete(written, False)
            raise FileExistsError(str(file))

    def rename(self, source: Location, target: Location) -> None:
        system, path = self._open(source)
        with _python_errors(source):
            if not system.rename(path, self._path(target)):
                raise OSError(f"cannot rename {source} to {target}")

    def delete(self, at: Location) -> None:
        system, path = self._open(at)
        system.delete(path, True)

    def make_directory(self, directory: Location) -> None:
        system, path = self._open(directory)
        system.mkdirs(path)

    def sync(self, directory: Location) -> None:
        """Nothing to do: the file system makes a closed file durable."""

    def _write_new(self, file: Location, data: bytes) -> Java:
        written = file.parent / f"_{file.name}{NEW}"
        system, path = self._open(written)
        _fill(system.create(path, True), data)
        return path

    def _open(self, at: Location) -> tuple[Java, Java]:
        path = self._path(at)
        return path.getFileSystem(self._settings), path

    def _path(self, at: Location) -> Java:
        return self._hadoop.fs.Path(at.text)


def _fill(stream: Java, data: bytes) -> None:
    try:
        stream.write(bytearray(data))
    finally:
        stream.close()


@contextmanager
def _python_errors(at: Location) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        name = error.java_exception.getClass().getName()
        if name == _MISSING:
            raise FileNotFoundError(str(at)) from error
        if name == _THERE:
            raise FileExistsError(str(at)) from error
        raise
