"""Tables of the page: a caption, sortable columns, and a link to the rows that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cns_common.charts.markup import Child, add, tag
from cns_pipeline.reports.text import count, counted, milliseconds, moment, plain, share, short_arn, size

ROWS_MAX = 25


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell, and the number by which it sorts; without a number, it sorts by text."""

    shown: Child
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    numeric: bool = True


def text_columns(*titles: str) -> tuple[Column, ...]:
    return tuple([Column(title, numeric=False) for title in titles])


def number_columns(*titles: str) -> tuple[Column, ...]:
    return tuple([Column(title) for title in titles])


def table(
    caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], left_out: int = 0, file: str = ""
) -> Element:
    """A table that scrolls sideways if it is too wide. `file` names the CSV file with all rows; with it, the page has
    the first ROWS_MAX."""
    if file:
        left_out += max(len(rows) - ROWS_MAX, 0)
        rows = rows[:ROWS_MAX]
    head = tag("tr", *[tag("th", column.title, scope="col", class_=_style(column)) for column in columns])
    body = tag("tbody", *[_row(columns, row) for row in rows])
    shown = tag("table", tag("caption", caption), tag("thead", head), body, class_="sortable")
    frame = tag("div", shown, class_="table", role="region", tabindex="0", aria_label=caption)
    if not rows:
        add(body, tag("tr", tag("td", "none", colspan=str(len(columns)), class_="muted")))
    return tag("div", frame, _more(left_out, file))


def section(name: str, title: str, *children: Child) -> Element:
    """A section of the page; `name` is its anchor, `title` its heading and menu entry."""
    return tag("section", tag("h2", title), *children, id=name)


def details(summary: str, *children: Child) -> Element:
    return tag("details", tag("summary", summary), *children)


def number(value: int | None) -> Cell:
    return Cell("–" if value is None else count(value), -1 if value is None else value)


def numbers(*values: int | None) -> tuple[Cell, ...]:
    return tuple([number(value) for value in values])


def span_ms(value: float | None) -> Cell:
    return Cell(milliseconds(value), -1 if value is None else value)


def part(value: float | None) -> Cell:
    return Cell(share(value), -1 if value is None else value)


def bytes_(value: int | None) -> Cell:
    return Cell("–" if value is None else size(value), -1 if value is None else value)


def at(value_ms: int | None) -> Cell:
    return Cell("–" if value_ms is None else tag("span", moment(value_ms), class_="time"), value_ms or 0)


def foreign(text: str) -> Element:
    """Text of a user or an endpoint, isolated so that its writing direction does not affect the text after it."""
    return tag("bdi", plain(text))


def words(text: str | None) -> Cell:
    return Cell(foreign(text or "–"))


def arn(text: str) -> Cell:
    """The last part of an ARN, above the whole ARN; other text as it is."""
    name = short_arn(text)
    if not text or name == text:
        return words(text)
    return Cell(tag("span", foreign(name), tag("small", plain(text), class_="arn")))


def _row(columns: Sequence[Column], cells: Sequence[Cell]) -> Element:
    return tag(
        "tr",
        *[
            tag(
                "td",
                cell.shown,
                class_=_style(column),
                data_value=None if cell.value is None else f"{cell.value:.15g}",
            )
            for column, cell in zip(columns, cells, strict=True)
        ],
    )


def _style(column: Column) -> str | None:
    return "number" if column.numeric else None


def _more(left_out: int, file: str) -> Element | None:
    if not (left_out or file):
        return None
    text = f"{counted(left_out, 'more row')}: " if left_out else "All rows: "
    return tag("p", text, tag("a", file, href=file) if file else "in the files", class_="more")
