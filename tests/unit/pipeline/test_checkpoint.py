"""Reads of Spark's checkpoint, which the test writes as Spark does."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns_pipeline.checkpoint import Checkpoint
from cns_pipeline.location import located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.segments import mark_ingested, sealed_segments
from cns_pipeline.storage import LocalFiles


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def checkpoint_of(out: Path) -> Checkpoint:
    return Checkpoint(LocalFiles(), PipelinePaths(out))


def write_log(out: Path, name: str, *paths: str) -> None:
    lines = ["v1", *[f'{{"path":"file://{path}","timestamp":1,"batchId":0}}' for path in paths]]
    write(out / "checkpoint" / "sources" / "0" / name, "\n".join(lines))


def write_offset(out: Path, number: int, log_offset: int, *, ended: bool) -> None:
    offset = f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{log_offset}}}'
    write(out / "checkpoint" / "offsets" / str(number), offset)
    if ended:
        write(out / "checkpoint" / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc")


def test_the_segments_of_all_batches(out: Path) -> None:
    assert checkpoint_of(out).segments() == set()
    write_log(out, "8", "/compacted/into/9")
    write_log(out, "9.compact", "/a%20b", "/c")
    write_log(out, "10", "/d")
    assert checkpoint_of(out).segments() == {"/a b", "/c", "/d"}


def test_whether_all_batches_were_ended(out: Path) -> None:
    assert not checkpoint_of(out).is_ended()
    write_log(out, "0", "/a")
    assert not checkpoint_of(out).is_ended()
    write_offset(out, 0, 0, ended=False)
    assert not checkpoint_of(out).is_ended()
    write_offset(out, 0, 0, ended=True)
    assert checkpoint_of(out).is_ended()
    write_log(out, "1", "/b")  # listed, but its batch did not begin
    assert not checkpoint_of(out).is_ended()
    write_offset(out, 1, 1, ended=True)
    assert checkpoint_of(out).is_ended()


@pytest.mark.parametrize("text", ["v2\n{}", "", "v1\nno JSON", 'v1\n{"file":"/a"}'])
def test_a_log_that_is_not_understood_names_nothing(out: Path, text: str) -> None:
    write(out / "checkpoint" / "sources" / "0" / "0", text)
    write(out / "checkpoint" / "offsets" / "0", text)
    write(out / "checkpoint" / "commits" / "0", text)
    assert checkpoint_of(out).segments() == set()
    assert not checkpoint_of(out).is_ended()


def test_a_checkpoint_of_other_events_is_dropped(out: Path) -> None:
    checkpoint, events = checkpoint_of(out), located("/events")
    assert not checkpoint.is_of(events)
    checkpoint.reset_unless_of(events)
    write_log(out, "0", "/events/a")
    checkpoint.reset_unless_of(events)
    assert checkpoint.is_of(events)
    assert checkpoint.segments() == {"/events/a"}
    checkpoint.reset_unless_of(located("/moved"))
    assert checkpoint.segments() == set()


def test_entries_of_segments_that_are_gone_are_trimmed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cns_pipeline.checkpoint.ENTRIES_FREE", 2)
    write_log(out, "9.compact", *[f"/{number}" for number in range(5)])
    write_log(out, "10", "/new")
    checkpoint, log = checkpoint_of(out), out / "checkpoint" / "sources" / "0"
    checkpoint.trim(["/0", "/1", "/2", "/new"])
    assert len(checkpoint.segments()) == 6  # two entries are too few to compact
    checkpoint.trim(["/0", "/new"])
    assert checkpoint.segments() == {"/0", "/new"}
    assert sorted(path.name for path in log.iterdir()) == [".10.crc", "10", "9.compact"]


def test_the_service_is_told_the_names_of_ingested_segments_that_exist(tmp_path: Path) -> None:
    names = ["2026-11-21/08/a.jsonl", "2026-11-21/09/b.jsonl", "flat.jsonl", "2026-11-21/09/c.jsonl.open"]
    for name in names:
        write(tmp_path / name, "")
    paths = {str(tmp_path / name) for name in names[:3]}
    assert sealed_segments(tmp_path) == paths
    mark_ingested(tmp_path, [*sorted(paths)[:2], "/gone.jsonl"])
    assert (tmp_path / "ingested").read_text() == "a.jsonl\nb.jsonl\n"
