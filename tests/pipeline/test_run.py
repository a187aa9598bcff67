"""`cns pipeline run`: all jobs in turn, the archive last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE, lock_directory
from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_common.sqlite.database import STORE_FILE
from cns_pipeline.arguments import Arguments, make_arguments
from cns_pipeline.jobs import archive, audit, health, report
from cns_pipeline.jobs import run as job
from cns_pipeline.session import open_job
from tests.pipeline.archive.archives import KEPT_DAYS, STANDARD, append, messages, table_rows, topic_named
from tests.pipeline.ingest.segments import publish, write_segment


@pytest.fixture
def arguments(tmp_path: Path) -> Arguments:
    """The arguments of a data directory with a message that was published just now."""
    now_ms = Clock().real_ms()
    write_segment(tmp_path / "events", "b", 1, [publish(at_ms=now_ms)], at_ms=now_ms)
    return make_arguments(tmp_path, None, None)


def test_archives_are_copied_and_kept_as_the_archive_command_was_told(
    spark: SparkSession, tmp_path: Path, arguments: Arguments
) -> None:
    now_ms, out = Clock().real_ms(), tmp_path / "pipeline"
    said = job.run(arguments)
    assert (said.exit_code, said.text.splitlines()[-1]) == (0, f"there is no store in {tmp_path}")
    topic = topic_named(STANDARD, now_ms)
    new = messages(topic, range(30), now_ms)
    append(tmp_path, topic, new)
    said = job.run(arguments)
    archived = f"archive:\n30 new messages of 1 archived topic are in {out / 'archive'}"
    assert (said.exit_code, said.text.rpartition("\n\n")[2]) == (0, archived)
    assert "report.html" in said.text
    old = messages(topic, range(1), now_ms - (KEPT_DAYS + 10) * DAY_MS)
    append(tmp_path, topic, old)
    for path in out.glob("archive/topic=*/_manifest.json"):
        path.unlink()  # as if no segment had been read yet
    archive.run(arguments, archive.store_place(tmp_path), archive.ArchiveOptions(keep_days=0))
    assert len(table_rows(out)) == 31
    assert job.run(arguments).exit_code == 0
    assert len(table_rows(out)) == 31, "the policy of the topic does not count"


def test_an_archive_that_cannot_be_read_holds_no_report_back(
    spark: SparkSession, tmp_path: Path, arguments: Arguments
) -> None:
    (tmp_path / STORE_FILE).write_bytes(b"no store " * 1_000)
    said = job.run(arguments)
    assert said.exit_code == EXIT_DATA_UNUSABLE
    assert "archive:\nfailed: cannot read the archives in " in said.text
    assert "report.html" in said.text


JOBS: dict[str, tuple[ModuleType, Callable[[Arguments], object]]] = {
    "run": (job, job.run),
    "report": (report, report.run),
    "health": (health, health.run),
    "audit": (audit, audit.run),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_second_run_is_refused_before_spark_starts(
    arguments: Arguments, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module, run = JOBS[name]
    arguments.paths.table.local.mkdir(parents=True)  # type: ignore[union-attr]  # it is local

    def no_session(_name: str, _arguments: Arguments) -> NoReturn:
        raise AssertionError("Spark was started")

    assert getattr(module, "open_job") is open_job  # noqa: B009  # mypy: no module exports it
    monkeypatch.setattr(module, "open_job", no_session)
    lock_directory(arguments.local, getattr(module, "LOCK"))  # noqa: B009  # as above
    with pytest.raises(StartError, match="is in use by another cns") as refused:
        run(arguments)
    assert refused.value.exit_code == EXIT_DATA_IN_USE


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for data, out in ((tmp_path / "file", None), (None, tmp_path / "file")):
        with pytest.raises(StartError, match=f"{tmp_path / 'file'} is not a directory") as refused:
            make_arguments(data, None, out)
        assert refused.value.exit_code == EXIT_DATA_UNUSABLE
