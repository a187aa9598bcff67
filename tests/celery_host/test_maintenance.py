"""Maintenance, triggered by a real `celery beat` and taken by one of two workers."""

from __future__ import annotations

import pytest

from lab.harness.waiting import wait_until
from tests.celery_host.celery_running import Celery

TRIGGERS = 2


@pytest.mark.slice
def test_each_trigger_is_taken_once(celery: Celery) -> None:
    workers = celery.workers("one", "two")
    beat = celery.start("beat", "beat", "--schedule", str(celery.directory / "schedule"))

    def runs() -> list[str]:
        ends = ("maintenance.ended", "maintenance.skipped")
        return [run["trigger"] for worker in workers for end in ends for run in worker.events(end)]

    wait_until(lambda: len(runs()) >= TRIGGERS, lambda: beat.output() + workers[0].output())
    assert beat.stop() == 0
    sent = beat.output().count("Sending due task maintenance.run")
    wait_until(lambda: len(runs()) == sent, lambda: f"{sent} sent, {runs()}")
    assert len(set(runs())) == sent
