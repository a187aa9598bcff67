"""The rows of the seeds are complete, name tests and files that exist, and are what docs/seeds.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeds.page import PAGE, draw_page
from tests.seeds.rows import SEEDS, Row, load_rows

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_has_all_its_rows(seed: str) -> None:
    letter, _, n = SEEDS[seed]
    assert [row.id for row in load_rows(seed)] == [f"{letter}{number}" for number in range(1, n + 1)]


@pytest.mark.parametrize("row", [row for seed in SEEDS for row in load_rows(seed)], ids=lambda row: row.id)
def test_a_row_says_what_shows_it_or_what_is_missing(row: Row) -> None:
    assert row.stated
    assert bool(row.show) == (row.state != "no")
    assert row.note or row.state == "yes"
    for node in [word for word in row.tests if not word.startswith("-")]:
        file, _, name = node.partition("::")
        assert (ROOT / file).exists(), node
        assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), node
    program, *arguments = row.show.split() or [""]
    if program == "read":
        assert (ROOT / arguments[0].partition("#")[0]).exists()


def test_the_page_says_what_the_rows_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == draw_page(), "run `python -m tests.seeds --page`"
