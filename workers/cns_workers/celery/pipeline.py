"""Runs `cns pipeline run` on beat's triggers, in a child process of the Celery worker, one at a time.

The pipeline continues a run that was killed, and its lock excludes other workers' runs on the same data. So neither a
lost trigger nor a killed child loses anything.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import structlog
from celery import shared_task

PIPELINE = "pipeline.run"
COMMAND = (sys.executable, "-m", "cns_cli.main", "pipeline", "run")

log = structlog.get_logger(__name__)


class PipelineProcess:
    """The child process of this worker, if one runs. Any thread may use it."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._lock = threading.RLock()  # a signal handler may interrupt its holder
        self._process: subprocess.Popen[str] | None = None
        self._stopping = False

    def start(self, trigger: str) -> None:
        """Start a run and return, unless one is under way. A thread logs its end."""
        with self._lock:
            if self._process is not None or self._stopping:
                log.info("pipeline.skipped", trigger=trigger)
                return
            self._process = process = subprocess.Popen(  # noqa: S603  # our own command
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        log.info("pipeline.started", trigger=trigger, child=process.pid)
        threading.Thread(target=self._wait, args=(process, trigger), name="pipeline", daemon=True).start()

    def stop(self) -> None:
        """End the child by SIGTERM, and start no other. Called in a signal handler, too."""
        with self._lock:
            self._stopping = True
            if self._process is not None:
                self._process.terminate()

    def _wait(self, process: subprocess.Popen[str], trigger: str) -> None:
        output, complaint = process.communicate()
        with self._lock:
            self._process = None
        if process.returncode:
            last = complaint.strip().splitlines()[-1:]
            log.warning("pipeline.failed", trigger=trigger, exit_code=process.returncode, error="".join(last))
        else:
            log.info("pipeline.ended", trigger=trigger, output=output.strip())


@shared_task(name=PIPELINE, bind=True)
def run_pipeline(task: Any) -> None:
    """Start a run of the pipeline, unless this worker has one under way."""
    task.app.pipeline.start(task.request.id)
