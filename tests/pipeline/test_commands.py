"""`cns pipeline` where it cannot run: one line that says what to do, and an exit code for scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

import cns
from cns_common.data_directory import lock_directory
from cns_pipeline.arguments import LOCK
from lab.harness.processes import BIN
from tests.pipeline.ingest.segments import publish, write_segment
from tests.pipeline.jobs import job

LACKING = 77
NOTHING_THERE = 74
IN_USE = 73
USAGE = 2


@pytest.fixture
def old_java(tmp_path: Path) -> Path:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    return home


def refused(code: int, *words: str | Path, **environment: str) -> str:
    """Run a command that must fail. Returns the one line of its complaint."""
    done = job("cns", "pipeline", *words, **environment)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (said,) = done.stderr.splitlines()
    return said


@pytest.mark.parametrize("command", ["ingest", "report"])
def test_without_java(command: str, tmp_path: Path) -> None:
    assert "no Java in JAVA_HOME=/nowhere" in refused(LACKING, command, "--data", tmp_path, JAVA_HOME="/nowhere")
    said = refused(LACKING, command, "--data", tmp_path, PATH=str(BIN), JAVA_HOME="")
    assert "there is no Java on the PATH: install Java 17" in said


def test_with_an_old_java(old_java: Path, tmp_path: Path) -> None:
    said = refused(LACKING, "report", "--data", tmp_path, JAVA_HOME=str(old_java))
    assert "Java 17 or newer, not Java 11" in said


def test_without_pyspark(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyspark'] = None\n")
    said = refused(LACKING, "ingest", "--data", tmp_path, PYTHONPATH=str(tmp_path))
    assert f"PySpark is not installed: run `pip install 'cns_cqs-{cns.__version__}-py3-none-any.whl[pipeline]'`" in said


def test_without_events_or_tables(tmp_path: Path) -> None:
    assert "there are no events in" in refused(NOTHING_THERE, "ingest", "--data", tmp_path)
    for command in ("report", "compact"):
        assert "run `cns pipeline ingest` first" in refused(NOTHING_THERE, command, "--data", tmp_path)


def test_a_period_that_is_none(tmp_path: Path) -> None:
    said = refused(USAGE, "report", "--data", tmp_path, "--day", "soon")
    assert said == "cns: --day 'soon' is neither a date like 2026-11-22 nor `today` nor `yesterday`"


def test_the_quick_report_needs_no_java(tmp_path: Path) -> None:
    assert "run `cns pipeline ingest` first" in refused(
        NOTHING_THERE, "report", "--quick", "--data", tmp_path, JAVA_HOME="/nowhere"
    )


def test_a_table_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "pipeline" / "events" / "_spark_metadata").mkdir(parents=True)
    for command in ("ingest", "report"):
        assert "was made by an earlier version: move it away" in refused(NOTHING_THERE, command, "--data", tmp_path)


def test_a_job_that_fails_in_spark(tmp_path: Path) -> None:
    """Its checkpoint cannot be read."""
    (tmp_path / "events").mkdir()
    offsets = tmp_path / "pipeline" / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v9\n{}\n")
    (tmp_path / "pipeline" / "source").write_text(str(tmp_path / "events"))
    said = refused(NOTHING_THERE, "ingest", "--data", tmp_path)
    log = tmp_path / "pipeline" / "cns-ingest.log"
    assert said.startswith("cns: cns-ingest failed in Spark: ")
    assert said.endswith(f" (more is in {log})")


def test_nothing_but_the_result_is_on_the_terminal(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "events", "b", 1, [publish()] * 2, b"no event\n")
    done = job("cns", "pipeline", "ingest", "--data", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, *others = done.stdout.splitlines()
    assert first.startswith("5 new lines of ")
    assert others == ["1 of them is not of an event, and kept aside", f"lines kept aside are of {path.name}"]


def test_two_ingests_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    lock_directory(tmp_path / "pipeline", LOCK)
    assert "is in use by another cns" in refused(IN_USE, "ingest", "--data", tmp_path)
