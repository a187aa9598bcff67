"""Reads a configuration file: its text, its models, and the resources of an account."""

from __future__ import annotations

import pathlib
import sys
from typing import Any, NamedTuple

from pydantic import ValidationError

from cns_cli.config.model import File
from cns_cli.config.source import BYTES_MAX, ConfigError, Path, Problem, Source
from cns_common.errors import UNREADABLE

_TEXTS = {"extra_forbidden": "is no key here", "missing": "is missing"}


class Document(NamedTuple):
    """A file that was read."""

    source: Source
    file: File
    """Without its faulty parts."""
    problems: list[Problem]


def read_file(name: str) -> Document:
    """Read a file, or standard input if it is `-`. Raises ConfigError."""
    try:
        with sys.stdin.buffer if name == "-" else pathlib.Path(name).open("rb") as stream:
            content = stream.read(BYTES_MAX + 1)
        if len(content) > BYTES_MAX:
            raise ValueError(f"longer than {BYTES_MAX} bytes")
        return read_text(name, content.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(name, [Problem((), 1, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        problem = Problem((), content.count(b"\n", 0, error.start) + 1, f"is not UTF-8: {error.reason}")
        raise ConfigError(name, [problem]) from None
    except UNREADABLE as error:
        raise ConfigError(name, [Problem((), 1, f"cannot be read: {error}")]) from None


def read_text(name: str, text: str) -> Document:
    """Raises ConfigError for a text that is neither YAML nor JSON."""
    source = Source(name, text)
    try:
        return Document(source, File.model_validate(source.value), [])
    except ValidationError as error:
        faults = error.errors()
    problems = []
    for fault in faults:
        path = tuple([step for step in fault["loc"] if step != "[key]"])  # the mark of a key that is no name
        problems.append(source.problem(path, _TEXTS.get(fault["type"], fault["msg"])))
        _remove(source.value, path[:-1] if fault["type"] == "missing" else path)
    try:
        return Document(source, File.model_validate(source.value), problems)
    except ValidationError:
        return Document(source, File(), problems)


def _remove(value: Any, path: Path) -> None:
    """Remove a part; of a list the whole list, so that the numbers of its items stay right."""
    lists = [depth for depth, step in enumerate(path) if isinstance(step, int)]
    *parents, name = path[: lists[0]] if lists else path or ("",)
    for step in parents:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value.pop(name, None)
