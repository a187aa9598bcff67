"""Segments on disk: those of a dead writer are sealed, and old ones removed."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
import structlog

from cns_common.events.files import seal_orphans
from tests.unit.common.test_segments import lines_of


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


def test_orphans_that_cannot_be_read_do_not_keep_the_others_open(tmp_path: Path) -> None:
    path = orphan(tmp_path, f"{opened_line()}\n")
    for name in ("a", "z"):  # directories, as opening one fails even for root
        path.with_name(f"{name}.jsonl.open").mkdir()
    with structlog.testing.capture_logs() as logged:
        assert seal_orphans(tmp_path, 7) == 1
    assert path.exists()
    (line,) = logged
    assert (line["event"], line["segments"]) == ("event_segment.recovery_failed", 2)


def orphan(directory: Path, left: str) -> Path:
    """The path of the sealed segment."""
    path = directory / "2026-01-01" / "00" / "p-b-000000000001.jsonl"
    path.parent.mkdir(parents=True)
    path.with_name(path.name + ".open").write_text(left)
    return path
