"""The pipeline, triggered by a real `celery beat` and run in a child process of a worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cns_common.clock import Clock
from lab.harness.parts import need
from lab.harness.running import Up
from lab.harness.waiting import wait_until
from tests.celery_host.celery_running import Celery, CeleryProcess
from tests.pipeline.ingest.segments import publish, write_segment

EXTRA_MISSING = 77
EVERY = {"CNS_PIPELINE_S": "1", "CNS_MAINTENANCE_S": "3600"}


def beaten(celery: Celery, **environment: str) -> tuple[CeleryProcess, CeleryProcess]:
    """A worker, and a beat that triggers the pipeline each second."""
    with_pipeline = replace(celery, environment={**celery.environment, **EVERY, **environment})
    (worker,) = with_pipeline.workers("one")
    return worker, with_pipeline.start("beat", "beat", "--schedule", str(celery.directory / "schedule"))


def test_a_run_that_fails_is_logged_and_tried_again(celery: Celery) -> None:
    worker, beat = beaten(celery, JAVA_HOME="/nowhere")
    wait_until(lambda: len(worker.events("pipeline.failed")) >= 2, worker.output)
    assert beat.stop() == 0
    first, second, *_ = worker.events("pipeline.failed")
    assert first["exit_code"] == second["exit_code"] == EXTRA_MISSING
    assert "there is no Java in JAVA_HOME=/nowhere" in first["error"]
    assert first["trigger"] != second["trigger"]
    assert worker.stop() == 0


@pytest.mark.extended
def test_one_run_at_a_time_and_none_outlives_its_worker(celery: Celery, service: Up) -> None:
    need("java")
    now_ms = Clock().real_ms()
    write_segment(service.data / "events", "b", 1, [publish(at_ms=now_ms)], at_ms=now_ms)
    worker, beat = beaten(celery)
    wait_until(lambda: worker.events("pipeline.ended"), worker.output)
    assert "report:" in worker.events("pipeline.ended")[0]["output"]
    assert worker.events("pipeline.skipped")
    wait_until(lambda: len(worker.events("pipeline.started")) > 1, worker.output)
    assert worker.stop() == 0
    assert beat.stop() == 0
    last = worker.events("pipeline.started")[-1]["child"]
    wait_until(lambda: not Path(f"/proc/{last}").exists())
