"""The summary of docs/reliability.md, made from the recorded rounds."""

from __future__ import annotations

from pathlib import Path

from lab.faults.report import write_summary
from lab.faults.results import KillResult, PowerResult
from lab.faults.run import LINES, PAGE, read_results

BEGIN, END = (f"<!-- summary, written by make faults: {which} -->" for which in ("begin", "end"))


def test_the_committed_summary_is_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    page.write_text(PAGE.read_text())
    write_summary(page, read_results(LINES))
    assert page.read_text() == PAGE.read_text()


def test_a_summary_counts_what_was_lost_and_what_has_no_cause(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n{BEGIN}\nold\n{END}\nrest\n")
    kills = [
        KillResult(kind="api", seed=1, place="x", messages=1_000, notifications=7, down_ms=30, faults=[]),
        KillResult(kind="api", seed=2, place="x", messages=500, down_ms=10, faults=["lost: a", "duplicate: b"]),
    ]
    power = PowerResult(seed=1, records=9, checkpoints=1, acknowledged=20, cuts={"random": 3}, faults=[])
    write_summary(page, [*kills, power])
    text = page.read_text()
    assert text.startswith("# Page\n") and text.endswith(f"{END}\nrest\n") and "old" not in text
    assert "1 of 2 rounds valid" in text and "1,500 sends and 7 publishes were acknowledged: 1 lost" in text
    assert "1 of 1 rounds valid" in text and "3 cuts" in text
    assert "0 with a cause that permits them" in text and ", 1 without" in text
    assert "embedded 20 / 30 ms" in text
