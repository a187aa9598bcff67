"""`cns pipeline …`: help that names the defaults, and one line for a path that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cns_cli.main import app
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_pipeline.arguments import JobResult, exit_code, make_arguments
from cns_pipeline.location import located
from cns_pipeline.storage import LocalFiles
from tests.unit.common.test_segments import file_size_limit

RUN = CliRunner()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("pipeline", "ingest"), ("Default: DATA/events.", "Default: DATA/pipeline.", "Example")),
        (("pipeline", "verify"), ("Default: DATA/pipeline.", "Default: all.", "Example")),
        (("endpoints",), ("Default: DATA/pipeline.", "Example")),
        (("replay",), ("Default: data.", "Example")),
    ],
)
def test_help_names_defaults_and_an_example(command: tuple[str, ...], words: tuple[str, ...]) -> None:
    shown = RUN.invoke(app, [*command, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert shown.exit_code == 0
    assert [word for word in words if word not in shown.output] == []


def test_a_file_in_place_of_the_directory_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events").mkdir()
    file = tmp_path / "file"
    file.touch()

    def work() -> JobResult:
        make_arguments(tmp_path, tmp_path / "events", file).check_events()
        return JobResult("not reached")

    assert exit_code(work) == EXIT_DATA_UNUSABLE
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err == f"cns: {file} is not a directory\n"


def test_a_disk_that_is_full_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> JobResult:
        LocalFiles().write(located(tmp_path / "report.json"), bytes(1000))
        return JobResult("not reached")

    with file_size_limit(100):
        assert exit_code(work) == EXIT_DATA_UNUSABLE
    assert capsys.readouterr() == ("", "cns: cannot write: File too large\n")
