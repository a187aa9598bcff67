"""The first table of docs/performance.md agrees with the tables below it, and a new run keeps the page's layout."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from lab.bench.drawing import draw_ratios
from lab.bench.page import DRAWING, NAME, PAGE, Page, lines, ratio_bars, refresh, with_section

SVG = "{http://www.w3.org/2000/svg}"
TEXT = """# Page

<!-- overview -->
<!-- /overview -->

Words between.

<!-- queues -->
| workload | floor/s | service/s | ratio | bar |
|---|---|---|---|---|
| send | 14,000 | 7,000 | **0.50** | ≥ 0.5 |
| batch send | 50,000 | 20,000 | **0.40** | ≥ 0.5, **missed** |
<!-- /queues -->

The end.
"""


def test_the_committed_page_is_up_to_date(tmp_path: Path) -> None:
    (tmp_path / DRAWING).parent.mkdir()
    copy = tmp_path / PAGE.name
    copy.write_text(PAGE.read_text())
    refresh(copy)
    assert copy.read_text() == PAGE.read_text()
    assert (tmp_path / DRAWING).read_text() == (PAGE.parent / DRAWING).read_text()
    assert len(lines(Page(PAGE.read_text()))) >= 14


def test_lines_are_made_from_the_sections_of_the_page(tmp_path: Path) -> None:
    (tmp_path / DRAWING).parent.mkdir()
    path = tmp_path / "page.md"
    path.write_text(TEXT)
    refresh(path)
    assert [line.bar for line in lines(Page(TEXT))] == ["≥ 0.5", "≥ 0.5, **missed**"]
    assert "| batch send | 20,000/s | floor 50,000/s | 0.40 | ≥ 0.5, **missed** |" in path.read_text()
    before, _, after = path.read_text().partition(f"<!-- /{NAME} -->")
    assert before.startswith("# Page\n") and after == TEXT.partition(f"<!-- /{NAME} -->")[2]


def test_a_bar_is_drawn_for_each_ratio_and_a_miss_in_its_colour() -> None:
    bars = list(ratio_bars(Page(TEXT)))
    assert [(bar.name, bar.ratio, bar.least, bar.missed) for bar in bars] == [
        ("send", 0.5, 0.5, False),
        ("batch send", 0.4, 0.5, True),
    ]
    root = ElementTree.fromstring(draw_ratios("a & b", bars))
    assert [rect.attrib["class"] for rect in root.iter(f"{SVG}rect")] == ["met", "missed"]


def test_a_section_is_replaced_where_it_stands_and_a_new_one_comes_last() -> None:
    text = with_section(TEXT, "queues", ["new"])
    assert text == TEXT.partition("| workload")[0] + "new\n<!-- /queues -->\n\nThe end.\n"
    assert with_section(TEXT, "idle", ["new"]) == TEXT + "\n## Idle\n\n<!-- idle -->\nnew\n<!-- /idle -->\n"
