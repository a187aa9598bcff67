"""Logs: errors are logged with their fields, and logging never raises."""

from __future__ import annotations

import os
import traceback
from contextlib import suppress
from pathlib import Path

import pytest

from cns_common.logs import StandardErrorLogger, format_error


def raised(text: str) -> ValueError:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_the_traceback_is_in_the_line() -> None:
    line = format_error(None, "error", {"event": "x", "exc_info": raised("bug")})
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert line["exception"].endswith("ValueError: bug")
    assert "exc_info" not in line
    assert format_error(None, "error", {"event": "x"}) == {"event": "x"}


def test_an_error_that_cannot_be_formatted_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SystemError("AST constructor recursion depth mismatch")

    monkeypatch.setattr(traceback, "print_exception", fails)
    line = format_error(None, "error", {"event": "x", "exc_info": raised("bug")})
    assert line == {"event": "x", "exception": "ValueError: bug"}


def test_a_line_that_cannot_be_written_is_dropped() -> None:
    with suppress(OSError), Path("/dev/full").open("w") as full:  # closing the file writes the line once more
        StandardErrorLogger(full).warning("lost")
    StandardErrorLogger(full).error("to a closed file")
    reader, writer = os.pipe()
    os.close(reader)
    with suppress(OSError), os.fdopen(writer, "w") as broken:
        StandardErrorLogger(broken).info("to nobody")
