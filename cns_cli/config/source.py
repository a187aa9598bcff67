"""A YAML or JSON text as JSON values, with the line of each part.

Plain words are what JSON makes of them: `on`, `no` and dates are text, as in YAML 1.2."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]
BYTES_MAX = 8 * 1024 * 1024
PARTS_MAX = 200_000
"""Aliases count as often as they are used."""
DEPTH_MAX = 60
NUMBER_CHARS_MAX = 40
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "~": None, "": None}
_TEXT_TAG = "tag:yaml.org,2002:str"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no types
    """Gives tags only to the parts that the text gives one."""

    def resolve(self, _kind: type[yaml.Node], _value: object, _implicit: object) -> str:
        return ""


class Decimal(float):
    """A number with its text: a tag `1.10` is not `1.1`."""

    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of a file, and its place."""

    path: Path
    line: int
    text: str


class ConfigError(Exception):
    """A file that cannot be used, with all its problems."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        self.lines = [
            f"{name}:{one.line}: " + ": ".join(filter(None, (path_text(one.path), one.text)))
            for one in sorted(problems, key=lambda one: one.line)
        ]
        super().__init__("\n".join(self.lines))


class Refused(ConfigError):
    """The service refused a part of the file."""


def path_text(path: Path) -> str:
    return ".".join(map(str, path))


class Source:
    """Raises ConfigError for a text that is neither YAML nor JSON."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._lines: dict[Path, int] = {}
        self._problems: list[Problem] = []
        try:
            if text.lstrip().startswith("{"):
                text = text.replace("\t", " ")  # JSON may be indented by tabs, and has none in its strings
            root = yaml.compose(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self.error((), str(error.problem), 0 if mark is None else mark.line + 1) from None
        except RecursionError:
            raise self.error((), "nested too deeply") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self.error((), f"the character U+{error.character:04X} is not allowed", line) from None
        except ValueError as error:  # an escape beyond Unicode
            raise self.error((), str(error)) from None
        self.value = None if root is None else self._read(root, ())
        if self._problems:
            raise ConfigError(name, self._problems)

    def line(self, path: Path) -> int:
        """The line of the part, else of the nearest around it."""
        return next((self._lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._lines), 1)

    def error(self, path: Path, text: str, line: int = 0) -> ConfigError:
        return ConfigError(self.name, [self.problem(path, text, line)])

    def problem(self, path: Path, text: str, line: int = 0) -> Problem:
        return Problem(path, line or self.line(path), text)

    def _read(self, node: yaml.Node, path: Path) -> Any:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if len(path) > DEPTH_MAX or len(self._lines) > PARTS_MAX:
            raise self.error(path[:3], f"nested deeper than {DEPTH_MAX}, or more than {PARTS_MAX} parts")
        if node.tag not in ("", _TEXT_TAG):
            self._problems.append(self.problem(path, f"the YAML tag {node.tag} is not known"))
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._read(item, (*path, n)) for n, item in enumerate(node.value)]
        text = self._text(node, path)
        return text if node.style or node.tag else plain_value(text)

    def _text(self, node: yaml.ScalarNode, path: Path) -> str:
        """JSON writes a character above U+FFFF as two escapes, which PyYAML does not join."""
        try:
            return str(node.value.encode("utf-16", "surrogatepass").decode("utf-16"))
        except UnicodeDecodeError:
            raise self.error(path, "a lone surrogate is not text") from None

    def _read_mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = self._text(key, path) if isinstance(key, yaml.ScalarNode) else None
            if name is None:
                self._problems.append(self.problem(path, "a key must be text", line))
            elif name in found:
                self._problems.append(self.problem((*path, name), "is there twice", line))
            else:
                self._lines[(*path, name)] = line
                found[name] = self._read(value, (*path, name))
        return found


def plain_value(text: str) -> object:
    """The value of a word without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > NUMBER_CHARS_MAX or not _NUMBER.fullmatch(text):
        return text
    number = json.loads(text)
    if isinstance(number, float):
        number = Decimal(number)
        number.text = text
    return number
