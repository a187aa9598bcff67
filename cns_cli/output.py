"""Prints results: aligned columns for people, JSON lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from json import dumps, loads

import msgspec

_encode = msgspec.json.Encoder().encode


def print_json(values: Iterable[object]) -> None:
    for value in values:
        sys.stdout.write(_writable(_encode(value).decode()) + "\n")
        sys.stdout.flush()


def _writable(text: str) -> str:
    """JSON text in characters of standard output's encoding."""
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


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest text. Without rows nothing is printed."""
    texts = [[str(cell) for cell in row] for row in rows]
    if not texts:
        return
    widths = [max(len(row[column]) for row in (titles, *texts)) for column in range(len(titles))]
    for row in (titles, *texts):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
