"""Compact a filter policy's text, and read it token by token.

AWS stores the compact text and passes it to its rule engine, a Java program, whose errors name the column at which its
parser stopped. That parser reads a string only on request, so the column depends on what was requested.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

import msgspec

from cns.json_errors import NotJsonError, decode_json

NAME, STRING, NUMBER = "name", "string", "number"
TRUE, FALSE, NULL = "true", "false", "null"
"""The kinds of tokens. A bracket is its own kind."""

SOURCE_CHARS_MAX = 500
"""Characters of the policy that an error shows."""

_TOKEN = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))(\s*:)?|[{}\[\]]|[^\s,:{}\[\]"]+')
"""A string without an end, which is not JSON, takes the rest of the text: otherwise the search would restart at each of
its quotes."""
_KINDS = {"{": "{", "}": "}", "[": "[", "]": "]", "t": TRUE, "f": FALSE, "n": NULL}


class FilterPolicyError(Exception):
    """AWS's error text for a policy that it refuses, and the location in the policy."""

    def __init__(self, complaint: str, location: str = "") -> None:
        super().__init__(complaint + location)


class Cursor:
    """The tokens of a text that is known to be JSON, and a position in them."""

    __slots__ = ("_index", "_read", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [_token(match) for match in _TOKEN.finditer(text)]
        self._index = -1
        self._read = False

    def next(self) -> str:
        """Advance to the next token. Return its kind."""
        self._index += 1
        self._read = False
        return self._tokens[self._index][0]

    def text(self) -> str:
        """The current token: the value of a string, the spelling of another token."""
        self._read = True
        kind, start, end = self._tokens[self._index]
        written = self._text[start:end]
        string: str = json.loads(written) if kind in (NAME, STRING) else written
        return string

    def error(self, complaint: str) -> FilterPolicyError:
        shown, rest = self._text[:SOURCE_CHARS_MAX], len(self._text) - SOURCE_CHARS_MAX
        truncated = f"[truncated {rest} chars]" if rest > 0 else ""
        return FilterPolicyError(
            complaint, f'\n at [Source: (String)"{shown}"{truncated}; line: 1, column: {self._column()}]'
        )

    def _column(self) -> int:
        """The column (from 1) at which AWS's parser stands. After a name it has seen the value's first token."""
        kind, start, end = self._tokens[self._index]
        read = self._read
        if kind == NAME:
            kind, start, end = self._tokens[self._index + 1]
            read = False
        return start + 2 if kind == STRING and not read else end + 1


def compact(text: str) -> str:
    """The text to store: without whitespace, with the last of equal keys, numbers as they are spelled."""
    try:
        return decode_json(text, lambda given: msgspec.json.encode(_JSON.decode(given)).decode())
    except NotJsonError as error:
        raise FilterPolicyError(str(error)) from None


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
