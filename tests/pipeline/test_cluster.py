"""The commands on a Spark cluster: a real master and a real worker, by `--master`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from cns_common.clock import Clock
from cns_common.events.schema import Event
from lab.harness.parts import need
from lab.harness.ports import free_port
from lab.harness.waiting import wait_until
from tests.pipeline.ingest.segments import attempt, delivery, publish, write_segment
from tests.pipeline.jobs import job

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PACKAGE = "org.apache.spark.deploy"


@contextmanager
def daemon(log: Path, *words: str) -> Iterator[None]:
    """One of Spark's own daemons, on the loopback address, with its web page at any free port."""
    variables = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as out:
        process = subprocess.Popen([SPARK_CLASS, *words], stdout=out, stderr=subprocess.STDOUT, env=variables)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The URL of a master that has a worker."""
    need("java")
    port, log = free_port(), tmp_path / "master.log"
    url = f"spark://127.0.0.1:{port}"
    master = (f"{PACKAGE}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    worker = (f"{PACKAGE}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(tmp_path), url)
    with daemon(log, *master), daemon(tmp_path / "worker.log", *worker):
        wait_until(lambda: "Registering worker" in log.read_text(), log.read_text)
        yield url


@pytest.mark.extended
def test_ingest_and_report_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    events: list[Event] = [publish(at_ms=Clock().real_ms()), attempt("t", "s"), delivery("t", "s", 7)]
    write_segment(tmp_path / "events", "b", 1, events)
    words = ("--data", tmp_path, "--master", cluster)
    ingested = job("cns", "pipeline", "ingest", *words, "--keep-days", "0", SPARK_LOCAL_IP="127.0.0.1")
    assert (ingested.returncode, ingested.stderr) == (0, "")
    assert ingested.stdout.startswith("5 new lines of ")
    reported = job("cns", "pipeline", "report", *words, SPARK_LOCAL_IP="127.0.0.1")
    assert (reported.returncode, reported.stderr) == (0, "")
    quick = job("cns", "pipeline", "report", "--quick", "--data", tmp_path)
    assert "delivered" in quick.stdout
