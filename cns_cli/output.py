"""Prints results, aligned columns for people or JSON lines for programs, and the line that ends a refused command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from json import dumps, loads
from typing import NoReturn, Protocol, TypeVar

import msgspec

from cns_common.errors import EXIT_USAGE

Item = TypeVar("Item")
_encode = msgspec.json.Encoder().encode


class _HasAttributes(Protocol):
    @property
    def attributes(self) -> Mapping[str, str]: ...


def print_json(values: Iterable[object]) -> None:
    for value in values:
        sys.stdout.write(_writable(_encode(value).decode()) + "\n")
        sys.stdout.flush()


def _writable(text: str) -> str:
    """JSON text in the encoding of standard output."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return dumps(loads(text), separators=(",", ":"))
    return text


def print_value(value: object, text: str, *, json: bool) -> None:
    """Print a value as JSON, or `text` for people: '' prints nothing."""
    if json:
        print_json([value])
    elif text:
        print(text)


def print_items(
    items: Iterable[Item], titles: Sequence[str], cells: Callable[[Item], Sequence[object]], *, json: bool
) -> None:
    """Print items as JSON, or for people as a table whose rows are their `cells`."""
    if json:
        print_json(items)
    else:
        print_table(titles, map(cells, items))


def print_attributes(value: _HasAttributes, *, json: bool) -> None:
    """Print a resource as JSON, or for people its attributes by name."""
    if json:
        print_json([value])
    else:
        print_table(("attribute", "value"), sorted(value.attributes.items()))


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    for line in table_lines(titles, rows):
        print(line)


def table_lines(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Columns as wide as their widest text; no lines without rows."""
    texts = [titles, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts]
    return lines if len(lines) > 1 else []


def refuse(why: object, code: int = EXIT_USAGE) -> NoReturn:
    """End the command with one line on standard error and an exit code."""
    print(f"cns: {why}", file=sys.stderr)
    sys.exit(code)
