"""A filter policy's text: written compactly, and read one token after another.

AWS stores the compact text and hands it to its rule engine, a Java program, which stops at the first fault and says in
which column its parser stood then. The parser reads a string only when it is asked for it, so what was asked counts.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

import msgspec

from cns.json_errors import json_fault

NAME, STRING, NUMBER = "name", "string", "number"
TRUE, FALSE, NULL = "true", "false", "null"
"""The kinds of tokens; a bracket is its own kind."""

SOURCE_CHARS_MAX = 500
"""How much of a policy is shown when it is refused."""

_TOKEN = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))(\s*:)?|[{}\[\]]|[^\s,:{}\[\]"]+')
"""A string without an end, which is not JSON, takes the rest of the text: else each quote in it was followed there."""
_KINDS = {"{": "{", "}": "}", "[": "[", "]": "]", "t": TRUE, "f": FALSE, "n": NULL}


class Fault(Exception):
    """What AWS says of a policy it refuses, and behind it where it is."""

    def __init__(self, complaint: str, place: str = "") -> None:
        super().__init__(complaint + place)


class Cursor:
    """The tokens of a text that is known to be JSON, and which one is current.

    `stored`: the policy was accepted before. It is read even if it would be refused today.
    """

    __slots__ = ("_index", "_read", "_text", "_tokens", "stored")

    def __init__(self, text: str, *, stored: bool = False) -> None:
        self.stored = stored
        self._text = text
        self._tokens = [_token(match) for match in _TOKEN.finditer(text)]
        self._index = -1
        self._read = False

    def next(self) -> str:
        """The kind of the next token, which becomes the current one."""
        self._index += 1
        self._read = False
        return self._tokens[self._index][0]

    def text(self) -> str:
        """The current token: the string, or the token as it is written."""
        self._read = True
        kind, start, end = self._tokens[self._index]
        written = self._text[start:end]
        string: str = json.loads(written) if kind in (NAME, STRING) else written
        return string

    def fault(self, complaint: str) -> Fault:
        shown, rest = self._text[:SOURCE_CHARS_MAX], len(self._text) - SOURCE_CHARS_MAX
        truncated = f"[truncated {rest} chars]" if rest > 0 else ""
        return Fault(complaint, f'\n at [Source: (String)"{shown}"{truncated}; line: 1, column: {self._column()}]')

    def _column(self) -> int:
        """Counted from one, of the character that is read next. With a name its value is looked at too."""
        kind, start, end = self._tokens[self._index]
        read = self._read
        if kind == NAME:
            kind, start, end = self._tokens[self._index + 1]
            read = False
        return start + 2 if kind == STRING and not read else end + 1


def compact(text: str) -> str:
    """The policy as it is stored: the last of equal keys, numbers as they are written."""
    try:
        return msgspec.json.encode(_JSON.decode(text)).decode()
    except UnicodeEncodeError:
        why = json_fault(text) or "Half a surrogate pair is no text"
    except ValueError:
        why = json_fault(text) or ""
    except RecursionError:
        why = json_fault(text) or "It is nested too deeply"
    raise Fault(f"failed to parse JSON. {why}".rstrip())


def _as_written(number: str) -> msgspec.Raw:
    return msgspec.Raw(number.encode())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _token(match: re.Match[str]) -> tuple[str, int, int]:
    start, end = match.span(1)
    if start >= 0:
        return (NAME if match[2] else STRING), start, end
    start, end = match.span()
    return _KINDS.get(match[0][0], NUMBER), start, end


_JSON = json.JSONDecoder(parse_int=_as_written, parse_float=_as_written, parse_constant=_refuse)
