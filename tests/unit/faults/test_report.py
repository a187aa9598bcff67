"""The summary of docs/reliability.md, made from the recorded rounds."""

from __future__ import annotations

from pathlib import Path

from lab.faults.report import write_summary
from lab.faults.run import LINES, PAGE, read_results


def test_the_committed_summary_is_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    page.write_text(PAGE.read_text())
    write_summary(page, read_results(LINES))
    assert page.read_text() == PAGE.read_text()
