"""Files of tables by every kind of location: one contract, and ingest from and to URLs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from cns_common.errors import StartError
from cns_pipeline.batches import Contents, event_table
from cns_pipeline.compaction import compact
from cns_pipeline.ingest import ingest
from cns_pipeline.location import Location, from_encoded, located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.read import read_events
from cns_pipeline.storage import Storage
from cns_pipeline.stored_file import StoredFile
from cns_pipeline.tables.table import TableWriter
from tests.pipeline.ingest.segments import publish, write_segment

KINDS = ("path", "file", "viewfs")


class Place(NamedTuple):
    """A location, and the same directory as a path."""

    at: Location
    path: Path


def place_of(kind: str, spark: SparkSession, directory: Path) -> Place:
    """A new directory. `viewfs:` is a file system of its own, with links to others; its links have no spaces."""
    if kind == "viewfs":
        java: Any = spark.sparkContext
        cluster = directory.name
        java._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{cluster}.link./data", directory.as_uri())
        return Place(located(f"viewfs://{cluster}/data"), directory)
    path = directory / "some where"
    path.mkdir()
    return Place(located(path if kind == "path" else f"file://{path}"), path)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return place_of(request.param, spark, tmp_path_factory.mktemp("place"))


def test_the_contract_of_files(spark: SparkSession, place: Place) -> None:
    storage, root = Storage(spark), place.at
    file, other = root / "a" / "file", root / "b"
    assert not storage.exists(file)
    assert storage.names(root / "a") == storage.names(root) == []
    with pytest.raises(FileNotFoundError):
        storage.read(file)
    storage.write(file, b"1")
    storage.write(file, bytes(range(256)))
    assert (storage.exists(file), storage.read(file)) == (True, bytes(range(256)))
    with pytest.raises(FileExistsError):
        storage.create(file, b"2")
    assert storage.read(file) == bytes(range(256))
    storage.create(root / "a" / "deep" / "new", b"")
    storage.write(root / "a" / "_hidden" / "x", b"x")
    storage.write(root / "a" / ".x", b"x")
    assert storage.names(root / "a") == [".x", "_hidden", "deep", "file"]
    assert storage.files(root / "a") == [StoredFile("deep/new", 0), StoredFile("file", 256)]
    assert storage.modified_ms(file) > 0
    storage.make_directory(other / "c")
    storage.sync(root)
    storage.rename(file, other / "c" / "moved")
    assert (storage.exists(file), storage.read(other / "c" / "moved")) == (False, bytes(range(256)))
    for _ in range(2):
        storage.delete(root / "a")
    storage.delete(other / "c" / "moved")
    assert (storage.names(root), storage.names(other / "c")) == (["b"], [])


def test_events_are_ingested_and_merged_from_and_to_any_place(spark: SparkSession, place: Place) -> None:
    events, paths, directory = place.at / "events", PipelinePaths(place.at / "out"), place.path / "events"
    for number in range(3):
        write_segment(directory, "b", 2 * number + 1, [publish()] * 2, b"no event\n")
        assert ingest(spark, events, paths).lines == 5
    assert ingest(spark, events, paths).lines == 0
    rows = Counter(read_events(spark, paths).collect())
    assert len(rows) == 15
    writer: TableWriter[Contents] = TableWriter(event_table(Storage(spark), paths), lambda: 0, has_lock=True)
    assert compact(spark, writer).files_after == 4  # one for each kind of event
    assert Counter(read_events(spark, paths).collect()) == rows
    assert (directory / "ingested").exists() == (events.local is not None)


def test_a_url_needs_spark() -> None:
    with pytest.raises(StartError, match=r"hdfs://h/x is a URL, which needs Spark"):
        Storage(None).exists(located("hdfs://h/x"))


@pytest.mark.parametrize(
    ("text", "scheme", "local", "name", "parent"),
    [
        ("/a/b", "", "/a/b", "b", "/a"),
        ("/a", "", "/a", "a", "/"),
        ("file:///a/b/", "file", "/a/b", "b", "file:///a"),
        ("hdfs://host:9000/a/b", "hdfs", None, "b", "hdfs://host:9000/a"),
        ("S3A://bucket/a", "s3a", None, "a", "S3A://bucket"),
    ],
)
def test_the_parts_of_a_location(text: str, scheme: str, local: str | None, name: str, parent: str) -> None:
    at = located(text)
    assert (at.scheme, at.name, str(at.parent)) == (scheme, name, parent)
    assert at.local == (None if local is None else Path(local))
    assert str(at / "c") == f"{str(at).rstrip('/')}/c"


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert located("x") == located(Path("x")) == located(tmp_path / "x")
    assert from_encoded("file:///a%20b/c") == "/a b/c"
    assert from_encoded("hdfs://h:1/a%20b") == "hdfs://h:1/a b"
