"""Segments on disk: those of a dead writer are sealed, and old ones removed."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from cns_common.events.files import remove_old_segments, seal_orphans
from tests.unit.common.test_segments import files, lines_of

HOUR_MS = 3_600_000


def opened_line(first_sequence: int = 1) -> str:
    return json.dumps(
        {"version": 1, "boot": "b", "sequence": 0, "event": "segment.opened", "process": "p", "at_ms": 1}
        | {"first_sequence": first_sequence}
    )


def event_line(sequence: int) -> str:
    return json.dumps({"version": 1, "boot": "b", "sequence": sequence, "event": "publish.accepted"})


SEALED_LINE = json.dumps({"version": 1, "boot": "b", "sequence": 0, "event": "segment.sealed"})


@pytest.mark.parametrize(
    ("left", "sealed"),
    [
        (f"{opened_line()}\n", {"first_sequence": 1, "last_sequence": 0, "events": 0, "torn_bytes": 0}),
        (f"{opened_line()}\n{event_line(1)}\n", {"last_sequence": 1, "events": 1, "torn_bytes": 0}),
        (f"{opened_line()}\n{event_line(1)}\n{{", {"last_sequence": 1, "events": 1, "torn_bytes": 1}),
        (f"{opened_line(5)}\n{event_line(5)}\n{event_line(9)}", {"first_sequence": 5, "last_sequence": 5, "events": 1}),
        (f"{opened_line(5)}\n{event_line(5)}\n{event_line(9)}\n", {"last_sequence": 9, "events": 2}),
        (f"{opened_line()}\n{event_line(1)}\n{'x' * 999}", {"last_sequence": 1, "events": 1, "torn_bytes": 999}),
        (f"{opened_line()}\n{event_line(1)}\n\0\0\0", {"last_sequence": 1, "events": 1, "torn_bytes": 3}),
    ],
    ids=["empty", "whole", "torn", "torn but for its end", "a gap", "torn and long", "zeros after a power cut"],
)
def test_an_orphan_is_sealed_up_to_its_last_whole_line(tmp_path: Path, left: str, sealed: dict[str, object]) -> None:
    path = orphan(tmp_path, left)
    assert seal_orphans(tmp_path, 7) == 1
    lines = lines_of(path)
    assert sealed.items() <= lines[-1].items()
    assert (lines[-1]["at_ms"], lines[-1]["recovered"], lines[-1]["boot"]) == (7, True, "b")


@pytest.mark.parametrize(
    "left", ["", "no JSON\n", f"{opened_line()}\nno JSON\n", f"{opened_line()}\n{event_line(1)}\n{SEALED_LINE}\n"]
)
def test_an_orphan_that_needs_no_trailer_or_can_get_none_is_only_renamed(tmp_path: Path, left: str) -> None:
    path = orphan(tmp_path, left)
    seal_orphans(tmp_path, 7)
    assert path.read_text() == left


def test_a_locked_segment_is_left_alone(tmp_path: Path) -> None:
    path = orphan(tmp_path, f"{opened_line()}\n")
    with path.with_name(path.name + ".open").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert seal_orphans(tmp_path, 7) == 0
    assert not path.exists()


def orphan(directory: Path, left: str) -> Path:
    """The path of the sealed segment."""
    path = directory / "2026-01-01" / "00" / "p-b-000000000001.jsonl"
    path.parent.mkdir(parents=True)
    path.with_name(path.name + ".open").write_text(left)
    return path


# -- retention --------------------------------------------------------------------------------------------------------


def sealed_at(directory: Path, hour: int, size_bytes: int = 10) -> Path:
    path = directory / "1970-01-01" / f"{hour:02d}" / f"p-{hour}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * size_bytes)
    return path


@pytest.mark.parametrize(
    ("keep_from_hour", "bytes_max", "left", "removed"),
    [
        (0, 100, [0, 1, 2, 3], (0, 0)),
        (2, 100, [2, 3], (2, 0)),
        (9, 100, [], (4, 0)),
        (0, 39, [1, 2, 3], (0, 1)),
        (0, 20, [2, 3], (0, 2)),
        (1, 10, [3], (1, 2)),
    ],
)
def test_old_segments_go_and_then_the_oldest_of_what_is_too_much(
    tmp_path: Path, keep_from_hour: int, bytes_max: int, left: list[int], removed: tuple[int, int]
) -> None:
    paths = [sealed_at(tmp_path, hour) for hour in range(4)]
    assert remove_old_segments(tmp_path, keep_from_hour * HOUR_MS, bytes_max) == removed
    assert [hour for hour, path in enumerate(paths) if path.exists()] == left


def test_an_open_segment_is_never_removed(tmp_path: Path) -> None:
    path = orphan(tmp_path, "x" * 100)
    assert remove_old_segments(tmp_path, 2**45, 0) == (0, 0)
    assert files(tmp_path, ".open") == [path.with_name(path.name + ".open")]
