"""The progress of a job, on a terminal only."""

from __future__ import annotations

import os
import sys

import pytest

from cns_pipeline.progress import START, progress_shown


def test_a_terminal_shows_that_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, terminal = os.openpty()
    with open(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        shown = b""
        with progress_shown("cns-ingest"):
            while START.encode() not in shown:
                shown += os.read(reader, 1024)
    os.close(reader)


def test_nothing_is_shown_elsewhere(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_shown("cns-ingest"):
        pass
    assert capfd.readouterr() == ("", "")
