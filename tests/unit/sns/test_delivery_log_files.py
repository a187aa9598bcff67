"""Delivery status logs on disk: the place of a record, rotation and removal of files, and failing disks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cns_backend.delivery_logs.reader import LogReader
from cns_backend.delivery_logs.writer import DeliveryLogWriter, LogLimits, folder_of, remove_old_logs
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from lab.harness.running import own_disk
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.unit.common.test_segments import file_size_limit

GROUP = "sns/us-east-1/123456789012/orders"
LIMITS = LogLimits(days=7, bytes_max=1 << 30)


def line(number: int, padding: int = 0) -> bytes:
    notification = {"messageId": "x" * padding, "timestamp": "1970-01-01 00:00:00.000"}
    return json.dumps({"notification": notification, "delivery": {"dwellTimeMs": number}}).encode() + b"\n"


@contextmanager
def writing(directory: Path, clock: Clock | None = None, limits: LogLimits = LIMITS) -> Iterator[DeliveryLogWriter]:
    files = DeliveryLogWriter(directory, clock or Clock(), limits)
    try:
        yield files
    finally:
        files.close()


def paths(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.jsonl"))


def counts(files: DeliveryLogWriter, name: str) -> dict[str, float]:
    return {dict(sample.labels).get("reason", ""): sample.value for sample in files.samples() if sample.name == name}


def numbers(directory: Path, *groups: str) -> list[int]:
    return [entry.at_ms for entry in LogReader(directory, groups or [GROUP]).read()]


def test_a_folder_for_each_group_and_a_file_for_each_process(tmp_path: Path) -> None:
    for number in (1, 2):
        with writing(tmp_path) as files:
            files.append(GROUP, line(number))
            files.append(f"{GROUP}/Failure", line(number + 10))
    folders = [path.parent.relative_to(tmp_path).as_posix() for path in paths(tmp_path)]
    assert sorted(folders) == [GROUP, GROUP, f"{GROUP}/Failure", f"{GROUP}/Failure"]
    assert numbers(tmp_path) == [1, 2]
    assert numbers(tmp_path, GROUP, f"{GROUP}/Failure") == [1, 2, 11, 12]
    assert counts(files, "cns_delivery_log_records_written_total") == {"": 2}


def test_nothing_is_made_where_nothing_is_logged(tmp_path: Path) -> None:
    with writing(tmp_path / "logs"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_nothing_written_is_readable_by_others(tmp_path: Path) -> None:
    with writing(tmp_path / "logs") as files:
        files.append(GROUP, line(1))
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*.jsonl")} == {0}


@pytest.mark.parametrize(
    "part", ["..", ".", "a/..", "...", "%2E%2E", "é" * 200, "t" * 256, "", "a b", "x\x00y", ".hidden"]
)
def test_no_name_leads_out_of_the_directory(tmp_path: Path, part: str) -> None:
    folder = folder_of(tmp_path / "logs", f"sns/us-east-1/123456789012/app/GCM/{part}")
    assert (tmp_path / "logs") in folder.resolve().parents
    folder.mkdir(parents=True)


def test_different_names_have_different_folders(tmp_path: Path) -> None:
    names = ["..", "%2E.", ".", "%2E", "t" * 255, "t" * 256, "a", "A"]
    assert len({folder_of(tmp_path, f"sns/r/a/{name}") for name in names}) == len(names)


def _has_written(files: DeliveryLogWriter, n: int) -> bool:
    return counts(files, "cns_delivery_log_records_written_total")[""] == n


def test_a_file_ends_by_size(tmp_path: Path) -> None:
    with writing(tmp_path, limits=LogLimits(days=7, bytes_max=1 << 30, file_bytes_max=len(line(1)))) as files:
        for number in (1, 2, 3):
            files.append(GROUP, line(number))
            wait_until(partial(_has_written, files, number))
    assert [path.stem.rpartition("-")[2] for path in paths(tmp_path)] == ["000", "001", "002"]
    assert numbers(tmp_path) == [1, 2, 3]


def test_a_day_has_a_file_of_its_own(tmp_path: Path) -> None:
    clock = Clock()
    with writing(tmp_path, clock) as files:
        files.append(GROUP, line(1))
        wait_until(lambda: counts(files, "cns_delivery_log_records_written_total")[""] == 1)
        clock.advance(DAY_MS)
        files.append(GROUP, line(2))
    first, second = [path.name[:10] for path in paths(tmp_path)]
    assert first < second


def test_one_file_is_open_however_many_topics_are_logged(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with writing(tmp_path) as files:
        for number in range(2_000):
            files.append(f"sns/us-east-1/123456789012/t{number}", line(number))
        wait_until(lambda: counts(files, "cns_delivery_log_records_written_total")[""] == 2_000)
        assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert len(paths(tmp_path)) == 2_000


# -- a disk that refuses ----------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_whole_lines_and_a_count(tmp_path: Path) -> None:
    """The file size limit stops a write in the middle of a line, as a full disk does."""
    with writing(tmp_path) as files:
        files.append(GROUP, line(1))
        wait_until(lambda: counts(files, "cns_delivery_log_records_written_total")[""] == 1)
        with file_size_limit(paths(tmp_path)[0].stat().st_size + 100):
            files.append(GROUP, line(2, padding=500))
            wait_until(lambda: counts(files, "cns_delivery_log_records_lost_total")["disk_refused"] == 1)
        files.append(GROUP, line(3))
    (path,) = paths(tmp_path)
    assert path.read_bytes() == line(1) + line(3)


FILL_THE_DISK = """
import sys
from pathlib import Path
from cns_common.clock import Clock
from tests.unit.sns.test_delivery_log_files import GROUP, LIMITS, counts, line, numbers, wait_until
from cns_backend.delivery_logs.writer import DeliveryLogWriter
directory = Path(sys.argv[1])
files = DeliveryLogWriter(directory, Clock(), LIMITS)
files.append(GROUP, line(1))
wait_until(lambda: counts(files, "cns_delivery_log_records_written_total")[""] == 1)
files.append(GROUP, line(2, padding=1 << 20))
wait_until(lambda: counts(files, "cns_delivery_log_records_lost_total")["disk_full"] == 1)
files.append(GROUP, line(3))
files.close()
assert numbers(directory) == [1, 3], numbers(directory)
"""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """On a real disk of 1 MiB: records that do not fit are dropped, others are written."""
    command = [*own_disk(tmp_path / "logs", 1), sys.executable, "-c", FILL_THE_DISK, str(tmp_path / "logs")]
    subprocess.run(command, cwd=Path(__file__).parents[3], check=True, timeout=PATIENCE_S)


# -- what goes ---------------------------------------------------------------------------------------------------------


def old_files(directory: Path, *facts: tuple[str, int]) -> list[Path]:
    """Make log files with these dates and sizes, the oldest first."""
    made = []
    for number, (date, size_bytes) in enumerate(facts):
        path = directory / "sns" / f"t{number}" / f"{date}-worker-{number}-000.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * size_bytes)
        os.utime(path, (number, number))
        made.append(path)
    return made


def test_old_days_go_and_so_do_their_folders(tmp_path: Path) -> None:
    made = old_files(tmp_path, ("2026-11-13", 100), ("2026-11-14", 100))
    assert remove_old_logs(tmp_path, "2026-11-14", 1 << 30) == (1, 0)
    assert [path.parent.exists() for path in made] == [False, True]


def test_the_oldest_make_room(tmp_path: Path) -> None:
    made = old_files(tmp_path, ("2026-11-15", 100), ("2026-11-14", 100), ("2026-11-15", 100), ("2026-11-01", 100))
    assert remove_old_logs(tmp_path, "2026-11-10", 150) == (1, 2)
    assert [path.exists() for path in made] == [False, False, True, False]


def test_nothing_to_remove(tmp_path: Path) -> None:
    assert remove_old_logs(tmp_path / "none", "2026-11-10", 1) == (0, 0)


def test_files_are_looked_through_at_the_start_and_when_much_was_written(tmp_path: Path) -> None:
    old_files(tmp_path, ("1970-01-01", 100))
    limits = LogLimits(days=7, bytes_max=10 * len(line(1)), file_bytes_max=1)
    with writing(tmp_path, limits=limits) as files:
        wait_until(lambda: counts(files, "cns_delivery_log_files_removed_total")["age"] == 1)
        for number in range(13):
            files.append(f"{GROUP}{number}", line(1))
        wait_until(lambda: counts(files, "cns_delivery_log_files_removed_total")["size"] == 3)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_reader_goes_on_where_it_stopped(tmp_path: Path) -> None:
    reader = LogReader(tmp_path, [GROUP])
    path = folder_of(tmp_path, GROUP) / "2026-11-21-a-000.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(line(2) + b"no record\n{}\n" + line(1) + line(3)[:10])
    assert [entry.at_ms for entry in reader.read()] == [1, 2]
    assert reader.read() == []
    path.write_bytes(path.read_bytes()[:-10] + line(3))
    assert [entry.at_ms for entry in reader.read()] == [3]


def test_since(tmp_path: Path) -> None:
    with writing(tmp_path) as files:
        for number in (1, 2, 3):
            files.append(GROUP, line(number))
    found: list[Any] = LogReader(tmp_path, [GROUP]).read(since_ms=2)
    assert [json.loads(entry.line)["delivery"]["dwellTimeMs"] for entry in found] == [2, 3]
