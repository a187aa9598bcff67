"""The first job of an environment leaves an archive of Java's classes, and the next one uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.harness.parts import need
from tests.pipeline.jobs import JOB_S, ROOT

JOB = """
import sys
from pathlib import Path
import cns_pipeline.session as session
session.DIRECTORY = Path(sys.argv[1])
with session.open_session("starts", Path(sys.argv[1], "java.log")) as spark:
    process = spark.sparkContext._gateway.proc.pid
    print(spark.range(1000).selectExpr("sum(id)").first()[0], Path(f"/proc/{process}/cmdline").read_text())
"""


def run_job(directory: Path) -> str:
    """Run a job; return its result and Java's command line."""
    done = subprocess.run(
        [sys.executable, "-c", JOB, directory], capture_output=True, text=True, check=False, timeout=JOB_S, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.extended
def test_the_second_start_uses_what_the_first_one_made(tmp_path: Path) -> None:
    need("java")
    (tmp_path / "spark-of-an-earlier-java.jsa").touch()
    first = run_job(tmp_path)
    assert first.startswith("499500 ")
    assert "-XX:ArchiveClassesAtExit=" in first
    (archive,) = tmp_path.glob("spark-*")
    assert archive.suffix == ".jsa"
    second = run_job(tmp_path)
    assert second.startswith("499500 ")
    assert f"-XX:SharedArchiveFile={archive}" in second
    assert list(tmp_path.glob("spark-*")) == [archive]
