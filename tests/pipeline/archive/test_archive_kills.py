"""`kill -9` of `cns pipeline archive` at random points: the table is the same row for row, and no file is left over."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cns_common.clock import Clock
from cns_common.process.kill_points import ARCHIVE_CLEANED, ARCHIVE_LISTED, ARCHIVE_MOVED, ARCHIVE_WRITTEN, VARIABLE
from cns_pipeline.archive.manifest import WRITING
from lab.harness.parts import need
from lab.harness.processes import BIN
from lab.harness.waiting import wait_until
from tests.pipeline.archive.archives import FIFO, STANDARD, append, files_below, messages, table_rows, topic_named
from tests.pipeline.jobs import JOB_S, QUICK_JAVA, ROOT, job

KILLS = 20
ROUNDS_MAX = 30
"""Rounds, of which some end before their kill point: nothing is replaced in the first one."""
SEED = 5
NEW_A_ROUND = 6
MESSAGES = NEW_A_ROUND * ROUNDS_MAX
"""Messages of each topic, spread over three days; a round archives some hours."""
POINTS = {ARCHIVE_WRITTEN: 1, ARCHIVE_MOVED: 2, ARCHIVE_LISTED: 2, ARCHIVE_CLEANED: 2}
"""With the highest count that a round reaches for sure, or nearly."""
STAGES = ("read", "new", "days")
"""Directories that Spark writes one after the other."""

pytestmark = [pytest.mark.extended, pytest.mark.timeout(3600)]  # starts a Java process for each kill


def test_twenty_kills_leave_one_table(tmp_path: Path) -> None:
    need("java")
    data, now_ms = tmp_path / "data", Clock().real_ms()
    topics = [topic_named(name, now_ms) for name in (STANDARD, FIFO)]
    kills = 0
    for number, plan in zip(range(ROUNDS_MAX), plans(), strict=False):
        for topic in topics:
            append(
                data, topic, messages(topic, range(number * NEW_A_ROUND, (number + 1) * NEW_A_ROUND), now_ms, MESSAGES)
            )
        kills += killed(data, plan, tmp_path / f"reached-{number}")
        if kills == KILLS:
            break
    assert kills == KILLS
    finished = job("cns", "pipeline", "archive", "--data", data)
    assert finished.returncode == 0, finished.stderr
    words = ("--data", data, "--out", tmp_path / "untouched")
    untouched = job("spark-submit", "cns_cli/pipeline/command.py", "archive", *words)
    assert untouched.returncode == 0, untouched.stderr
    assert table_rows(data / "pipeline") == table_rows(tmp_path / "untouched") != []
    assert files_below(data / "pipeline") == files_below(tmp_path / "untouched")


def plans() -> Iterator[tuple[str, int]]:
    """A kill point with its count, or a directory of Spark with 0."""
    randomly = random.Random(SEED)
    while True:
        name = randomly.choice((*POINTS, *STAGES))
        yield name, randomly.randint(1, POINTS[name]) if name in POINTS else 0


def killed(data: Path, plan: tuple[str, int], reached: Path) -> bool:
    """Run the job, kill it as planned, and wait until its Java process is gone. False: it ended before."""
    name, count = plan
    order = {VARIABLE: f"{name}:{count}:{reached}"} if count else {}
    log = reached.with_suffix(".log")
    with log.open("wb") as said:
        process = subprocess.Popen(
            [BIN / "cns", "pipeline", "archive", "--data", data],
            stdout=said,
            stderr=said,
            cwd=ROOT,
            env={**os.environ, **QUICK_JAVA, **order},
            start_new_session=True,
        )
    if not count:
        writing = data / "pipeline" / "archive" / WRITING
        wait_until(lambda: process.poll() is not None or any(writing.glob(f"*/{name}")), log.read_text)
        process.kill()
    code = process.wait(JOB_S)
    wait_until(lambda: not group_exists(process.pid), lambda: "Java goes on")
    assert code in (0, -signal.SIGKILL), log.read_text()
    return code != 0


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
