"""`kill -9` of ingest and compaction at random points: the table is whole at once, and the same after the next run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random

import duckdb
import pytest

from cns_common.durations import DAY_MS
from cns_pipeline.batches import event_directories, event_table
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.storage import Storage
from cns_pipeline.tables.table import TableWriter
from lab.harness.parts import need
from tests.pipeline.ingest.segments import AT_MS, publish, write_segment
from tests.pipeline.jobs import ROOT, job_environment
from tests.pipeline.tables import stray_files

KILLS = 20
"""Kills of each of the two jobs."""
SEGMENTS, DATES = 4, 3
LINES = DATES + 2
"""Lines of a segment, with its first and last."""
STEPS = {"ingest": 28, "compact": 11}
"""About how many changes of files a victim makes; it is killed at one of them."""
MORE_S = 0.4
"""The longest random delay of a kill, as Spark writes meanwhile."""
VICTIM_S = 1_200.0
LATER_MS = AT_MS * 2
"""Long after any reader ended that began before a compaction."""

Rows = Counter[tuple[object, ...]]

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.extended]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return tmp_path / "events"


def write_segments(events: Path, first: int, segments: int = SEGMENTS) -> None:
    """With events of several dates, a line that is none, and a copy of the last segment."""
    for number in range(first, first + segments):
        told = [publish(at_ms=AT_MS + DAY_MS * date) for date in range(DATES)]
        junk = b"no event %d\n" % number if number == first else b""
        path = write_segment(events, "b", DATES * number + 1, told, junk)
    shutil.copy2(path, path.with_name(f"copy-{first}.jsonl"))


def rows_of(out: Path, columns: str = "* EXCLUDE (file, batch)") -> Rows:
    """The rows of the table as a reader without Spark finds them; a row of a copied segment may name either file."""
    found = event_directories(Storage(None), PipelinePaths(out))
    files = [str(path) for place in found for path in Path(place).rglob("*.parquet")]
    if not files:
        return Counter()
    table = duckdb.read_parquet(files, hive_partitioning={"date": "DATE", "event": "VARCHAR"}, union_by_name=True)
    return Counter(table.project(columns).fetchall())


def check_tidy(out: Path) -> None:
    """Once readers have ended, the next writer leaves exactly the files that the table names."""
    TableWriter(event_table(Storage(None), PipelinePaths(out)), lambda: LATER_MS, has_lock=True)
    assert stray_files(out) == set()
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint", "events", "source"]


def test_ingest_killed_twenty_times_in_a_row_has_each_event_once(events: Path, tmp_path: Path) -> None:
    """Before each run there are new segments beside what the last one left. Then the same rows as without kills."""
    need("java")
    out, random, before = tmp_path / "out", Random(1), Counter[tuple[object, ...]]()
    for number in range(KILLS):
        write_segments(events, SEGMENTS * number)
        run_and_kill("ingest", events, out, random)
        rows = rows_of(out)
        assert before <= rows
        assert set(rows.values()) <= {1}
        before = rows
    run_to_end("ingest-all", events, out)
    undisturbed = tmp_path / "undisturbed"
    run_to_end("ingest-all", events, undisturbed)
    rows = rows_of(out)
    assert rows == rows_of(undisturbed)
    assert sum(rows.values()) == KILLS * (SEGMENTS * LINES + 1)
    check_tidy(out)


def test_compaction_killed_at_twenty_points_leaves_all_rows(events: Path, tmp_path: Path) -> None:
    need("java")
    random, whole = Random(2), tmp_path / "whole"
    write_segments(events, 0)
    run_to_end("ingest", events, whole)
    expected = rows_of(whole)
    assert sum(expected.values()) == SEGMENTS * LINES + 1
    for number in range(KILLS):
        out = tmp_path / str(number)
        shutil.copytree(whole, out)
        run_and_kill("compact", events, out, random)
        assert rows_of(out) == expected
        check_tidy(out)
        assert rows_of(out) == expected
    run_to_end("compact", events, out)
    assert rows_of(out) == expected
    check_tidy(out)


def run_to_end(mode: str, events: Path, out: Path) -> None:
    victim = start(mode, events, out)
    output, _ = victim.communicate(timeout=VICTIM_S)
    assert (victim.returncode, output.splitlines()[-1]) == (0, b"ended")


def run_and_kill(mode: str, events: Path, out: Path, random: Random) -> None:
    """Kill Python and Java, or only Python, whose Java process ends when it notices."""
    victim = start(mode, events, out)
    assert victim.stdout is not None
    steps = list(islice(victim.stdout, random.randrange(STEPS[mode]) + 1))
    assert steps, "the victim ended by itself"
    with suppress(subprocess.TimeoutExpired):
        victim.wait(random.uniform(0, MORE_S) * random.randrange(2))
    if random.randrange(2):
        victim.kill()
    else:
        os.killpg(victim.pid, signal.SIGKILL)
    victim.stdout.read()  # until its Java process, which has the pipe as well, has ended
    victim.stdout.close()
    victim.wait(VICTIM_S)


def start(mode: str, events: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.ingest.victim", mode, events, out],
        cwd=ROOT,
        env=job_environment(),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
