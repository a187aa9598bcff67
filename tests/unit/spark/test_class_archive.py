"""The archive of Java's classes: whose it is, when it is made, and when Java is left alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark import SparkContext

from cns_pipeline import class_archive
from cns_pipeline.class_archive import archive_path, finished_at_end, options_to_make, options_to_use


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a Java that has the archive of its own classes."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    monkeypatch.setenv("JAVA_HOME", str(home))
    for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    return home


def test_another_java_has_another_archive(java: Path, tmp_path: Path) -> None:
    first = archive_path(tmp_path)
    assert first == archive_path(tmp_path)
    (java / "bin" / "java").rename(java / "bin" / "before")
    (java / "bin" / "java").write_text("#!/bin/sh\n# newer\n")
    (java / "bin" / "java").chmod(0o755)
    assert archive_path(tmp_path) not in (first, None)


def test_a_java_that_can_have_no_archive(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xshare:off")
    assert archive_path(tmp_path) is None
    monkeypatch.delenv("JDK_JAVA_OPTIONS")
    (java / "lib" / "server" / "classes.jsa").unlink()
    assert archive_path(tmp_path) is None
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert archive_path(tmp_path) is None


def test_it_is_made_once_and_then_used(java: Path, tmp_path: Path) -> None:
    archive = archive_path(tmp_path / "share" / "cns", tmp_path / "data")
    assert archive is not None
    assert options_to_use(archive) == ""
    making = Path(options_to_make(archive).rpartition("-XX:ArchiveClassesAtExit=")[2])
    assert making.parent == archive.parent == tmp_path / "share" / "cns"
    assert making != archive  # others do not use an unfinished one
    archive.touch()
    assert options_to_use(archive).endswith(f"-XX:SharedArchiveFile={archive}")


def test_where_the_environment_is_read_only_it_is_in_the_data_directory(java: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    read_only, data = tmp_path / "file" / "cns", tmp_path / "data"
    archive = archive_path(read_only, data)
    assert archive is not None
    assert archive.parent == data
    assert archive_path(read_only) is None


def test_a_java_that_takes_too_long_to_write_it_is_killed_and_the_job_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "EXIT_S", 0.0)
    archive = tmp_path / "spark-0.jsa"
    part = Path(options_to_make(archive).rpartition("=")[2])
    part.write_bytes(b"begun")
    with subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE) as java:
        monkeypatch.setattr(SparkContext, "_gateway", Mock(proc=java))
        monkeypatch.setattr(SparkContext, "_jvm", None)
        with finished_at_end(archive):
            pass
        assert java.returncode is not None
    assert not list(tmp_path.iterdir())
