"""Runs the commands of the pipeline in processes of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab.harness.processes import BIN

ROOT = Path(__file__).parents[2]
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Jobs of seconds end before the second compiler pays off."""
JOB_S = 1_200.0
"""Ends a job that hangs; on a busy machine one of seconds takes ten minutes."""


def job_environment(**environment: str) -> dict[str, str]:
    """`spark-submit` finds Python on the PATH, as in an activated environment."""
    return {**os.environ, **QUICK_JAVA, "PATH": f"{BIN}:{os.environ['PATH']}", **environment}


def job(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [BIN / words[0], *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S,
        cwd=ROOT,
        env=job_environment(**environment),
    )
