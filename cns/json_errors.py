"""Says why a text is not JSON, with the messages of Jackson, the JSON parser of AWS's services.

AWS passes the parser's message on to the caller. These are the messages of Jackson 2.19 (`ReaderBasedJsonParser`, with
which the recordings of AWS agree); `tests/filters/test_against_jackson.py` compares them with Jackson's own. The
scanner reads only texts that a decoder has refused, or that have many brackets, and builds no values. Its time is
linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NoReturn, TypeVar

from cns_common.errors import UNREADABLE

Decoded = TypeVar("Decoded")

TEXT_CHARS_MAX = 32_768
"""Longer texts are not scanned: that would block the event loop for more than 0.1 s."""
NESTING_MAX = 1_000
"""Jackson's limit of nested containers."""
TOKEN_CHARS_MAX = 256
"""Characters of an unrecognized token that the message shows."""

_SOURCE = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: {}"
_VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_COMMENT = (
    "maybe a (non-standard) comment? (not recognized as one since Feature 'ALLOW_COMMENTS' not enabled for parser)"
)
_BLANKS_ONLY = "only regular white space (\\r, \\n, \\t) is allowed between tokens"
_NO_PLUS = (
    "JSON spec does not allow numbers to have plus signs: "
    "enable `JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow"
)
_END = "Unexpected end-of-input"

_SPACE = re.compile(r"[ \t\r\n]*")
_LINE_END = re.compile(r"\r\n?|\n")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(r"[0-9]*")
_HEX = re.compile(r"[0-9A-Fa-f]{0,4}")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_WORDS = {"t": "true", "f": "false", "n": "null", "N": "NaN", "I": "Infinity"}
_STANDARD_WORDS = frozenset({"true", "false", "null"})
_KINDS = {"{": "Object", "[": "Array"}
_CLOSERS = {"{": "}", "[": "]"}
_STARTS_OF_NAMES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PARTS_OF_NAMES = _STARTS_OF_NAMES | {"Nd", "Mn", "Mc", "Cf"}
"""Unicode categories of the characters that begin, or continue, an identifier of Java."""
_IGNORABLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x9f]")
"""Control characters, which also continue an identifier of Java."""


class NotJsonError(ValueError):
    """A text that AWS's parser refuses, with the message of SNS."""


def decode_json(text: str, decode: Callable[[str], Decoded]) -> Decoded:
    """Decode a text. Raises NotJsonError, also for one nested deeper than NESTING_MAX, of which Python reads some."""
    many = text.count("[") + text.count("{") > NESTING_MAX
    why = json_fault(text) if many else None
    if why is None:
        try:
            return decode(text)
        except UNREADABLE as error:
            why = json_fault(text) or ("A lone surrogate is not text" if isinstance(error, UnicodeEncodeError) else "")
    raise NotJsonError(f"failed to parse JSON. {why}".rstrip())


def json_fault(text: str) -> str | None:
    """Return Jackson's message about a text that is not JSON; None when it is JSON, or longer than TEXT_CHARS_MAX."""
    if len(text) > TEXT_CHARS_MAX:
        return None
    try:
        _Scanner(_ASTRAL.sub(_surrogates, text)).read()
    except _Fault as fault:
        whole = str(fault).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return whole.encode(errors="replace").decode()  # half of a pair becomes '?', as when Java sends it
    return None


class _Fault(Exception):
    """A complete message."""


class _Scanner:
    """One pass over a text of UTF-16 units, in which Java counts columns."""

    __slots__ = ("_at", "_open", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[int] = []  # the positions of the brackets that are open

    def read(self) -> None:
        self._skip_space()
        if self._at == len(self._text):
            raise _Fault(f"No content to map due to end-of-input\n at {_SOURCE.format(1)}]")
        follows = self._value()
        while self._open:
            self._skip_space()
            if self._close():
                follows = True
            else:
                self._entry(follows=follows)
                follows = self._value()
        self._end()

    # -- structure ----------------------------------------------------------------------------------------------------

    def _close(self) -> bool:
        """Read the closing bracket of the innermost container. Return False when it does not end here."""
        character, opened = self._here(), self._open[-1]
        bracket = self._text[opened]
        if not character:
            kind, start = _KINDS[bracket], self._location(opened)
            self._fail(f"{_END}: expected close marker for {kind} (start marker at {start})", self._at)
        if character not in "]}":
            return False
        if character != _CLOSERS[bracket]:
            expected = f"expected '{_CLOSERS[bracket]}' (for {_KINDS[bracket]} starting at {self._location(opened)})"
            self._fail(f"Unexpected close marker '{character}': {expected}", self._at)
        self._open.pop()
        self._at += 1
        return True

    def _entry(self, *, follows: bool) -> None:
        """Read the part of an entry before its value. `follows`: the entry is not the first of its container."""
        bracket = self._text[self._open[-1]]
        if follows:
            if self._here() != ",":
                self._unexpected(self._at, f"was expecting comma to separate {_KINDS[bracket]} entries")
            self._at += 1
            self._skip_space()
            self._expect_more(_KINDS[bracket])
            if bracket == "[" and self._here() == "}":
                self._unexpected(self._at, "expected a value")
        if bracket == "{":
            if self._here() != '"':
                self._unexpected(self._at, "was expecting double-quote to start field name")
            self._string("name", " in field name")
            self._skip_space()
            self._expect_more(_KINDS[bracket])
            if self._here() != ":":
                self._unexpected(self._at, "was expecting a colon to separate field name and value")
            self._at += 1
            self._skip_space()
            self._expect_more(_KINDS[bracket])

    def _end(self) -> None:
        self._skip_space()
        start = self._at
        if start == len(self._text):
            return
        kind = "VALUE_STRING"
        if self._here() != '"':  # Jackson reads the next token, but of a string its first character only
            self._value()
            kind = _token(self._text[start : self._at])
        bound = "found after value (bound as `com.fasterxml.jackson.databind.JsonNode`)"
        feature = "not allowed as per `DeserializationFeature.FAIL_ON_TRAILING_TOKENS`"
        self._fail(f"Trailing token (of type {kind}) {bound}: {feature}", start)

    # -- values -------------------------------------------------------------------------------------------------------

    def _value(self) -> bool:
        """Read a value, or the bracket that opens one. Return whether it is complete."""
        character = self._here()
        if character in _KINDS:
            if len(self._open) == NESTING_MAX:
                limit = f"({NESTING_MAX}, from `StreamReadConstraints.getMaxNestingDepth()`)"
                raise _Fault(f"Document nesting depth ({NESTING_MAX + 1}) exceeds the maximum allowed {limit}")
            self._open.append(self._at)
            self._at += 1
            return False
        if character == '"':
            self._string("string value", ": was expecting closing quote for a string value")
        elif character in "-0123456789":
            self._number()
        elif character == "+":
            self._bad_sign("+")
        elif character in _WORDS:
            self._word(_WORDS[character], 1, self._at + 1)
        else:
            self._bad_value(character)
        return True

    def _bad_value(self, character: str) -> NoReturn:
        if character in "]}" and not self._open:
            kind = "Array" if character == "]" else "Object"
            self._fail(f"Unexpected close marker '{character}': no open {kind} to close", self._at)
        if unicodedata.category(character) in _STARTS_OF_NAMES:
            self._unrecognized(character, self._at + 1)
        self._unexpected(self._at, f"expected a valid value {_VALUES}")

    def _word(self, word: str, matched: int, at: int) -> None:
        """Read the rest of a word, of which `matched` characters have been read, up to `at`."""
        while matched < len(word):
            if self._text[at : at + 1] != word[matched]:
                self._unrecognized(word[:matched], at)
            matched += 1
            at += 1
        after = self._text[at : at + 1]
        if after >= "0" and after not in "]}" and _continues(after):
            self._unrecognized(word, at)
        if word not in _STANDARD_WORDS:
            self._fail(f"Non-standard token '{word}': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow", at)
        self._at = at

    def _unrecognized(self, token: str, at: int) -> NoReturn:
        """Fail behind the token, which is as long as an identifier of Java."""
        while (part := self._text[at : at + 1]) and _continues(part):
            token += part
            at += 1
            if len(token) >= TOKEN_CHARS_MAX:
                token += "..."
                break
        self._fail(f"Unrecognized token '{token}': was expecting {_VALUES}", at)

    # -- strings ------------------------------------------------------------------------------------------------------

    def _string(self, what: str, at_end: str) -> None:
        at = self._at + 1
        while True:
            at = _span(_PLAIN, self._text, at)
            character = self._text[at : at + 1]
            if not character:
                self._fail(f"{_END}{at_end}", at)
            if character == '"':
                break
            if character != "\\":
                escape = f"has to be escaped using backslash to be included in {what}"
                self._fail(f"Illegal unquoted character ({_described(character)}): {escape}", at)
            at = self._escape(at + 1)
        self._at = at + 1

    def _escape(self, at: int) -> int:
        """Read what follows a backslash. Return the position behind it."""
        character = self._text[at : at + 1]
        if character and character in '"\\/bfnrt':
            return at + 1
        if character and character != "u":
            self._fail(f"Unrecognized character escape {_described(character)}", at)
        after = _span(_HEX, self._text, at + 1) if character else at
        if after == len(self._text) and after < at + 5:
            self._fail(f"{_END} in character escape sequence", after)
        if after < at + 5:
            self._unexpected(after, "expected a hex-digit for character escape sequence")
        return after

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _number(self) -> None:
        text, digits = self._text, self._at + (self._here() == "-")
        end = _span(_DIGITS, text, digits)
        if end == digits:
            self._bad_sign("-")
        if text[digits] == "0" and end > digits + 1:
            self._fail("Invalid numeric value: Leading zeroes not allowed", digits + 1)
        # for numbers that do not begin with 0 Jackson reports both faults at the end of the integer part
        mark = end if text[digits] != "0" else None
        if text[end : end + 1] == ".":
            digits, end = end + 1, _span(_DIGITS, text, end + 1)
            if digits == end:
                self._bad_number(end, mark, "Decimal point not followed by a digit")
        if text[end : end + 1] in ("e", "E"):
            digits = end + 1 + (text[end + 1 : end + 2] in ("+", "-"))
            end = _span(_DIGITS, text, digits)
            if digits == len(text):
                self._fail(f"{_END}expected a digit for number exponent", end)
            if digits == end:
                self._bad_number(end, mark, "Exponent indicator not followed by a digit")
        self._at = end
        if not self._open and end < len(text) and text[end] not in " \t\r\n":
            self._unexpected(end, "Expected space separating root-level values")

    def _bad_number(self, at: int, mark: int | None, why: str) -> NoReturn:
        """Name the character at `at`, or the last one at the end, in the column of `mark` where there is one."""
        at = min(at, len(self._text) - 1)
        character = _described(self._text[at])
        self._fail(f"Unexpected character ({character}) in numeric value: {why}", at if mark is None else mark)

    def _bad_sign(self, sign: str) -> NoReturn:
        """Fail at a minus without digits, or at a plus."""
        at = self._at + 1
        character = self._text[at : at + 1]
        if not character:
            self._fail(f"{_END} in a Number value" if sign == "+" else f"{_END}No digit following sign", at)
        if sign == "-" and character == ".":
            self._unexpected(at, f"expected a valid value {_VALUES}")
        if character == "I":
            at += 1
            character = self._text[at : at + 1]
            if not character:
                self._fail(f"{_END} in a Number value", at)
            if character in "Nn":
                self._word(f"{sign}INF" if character == "N" else f"{sign}Infinity", 3, at + 1)
        if sign == "+":
            character, why = "+", _NO_PLUS
        else:
            why = "expected digit (0-9) to follow minus sign, for valid numeric value"
        self._fail(f"Unexpected character ({_described(character)}) in numeric value: {why}", at)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _here(self) -> str:
        """The current character, '' at the end."""
        return self._text[self._at : self._at + 1]

    def _skip_space(self) -> None:
        self._at = _span(_SPACE, self._text, self._at)
        character = self._here()
        if character == "/":
            self._unexpected(self._at, _COMMENT)
        if character and character < " ":
            self._fail(f"Illegal character ({_described(character)}): {_BLANKS_ONLY}", self._at + 1)

    def _expect_more(self, kind: str) -> None:
        if self._at == len(self._text):
            self._fail(f"{_END} within/between {kind} entries", self._at)

    def _unexpected(self, at: int, why: str) -> NoReturn:
        self._fail(f"Unexpected character ({_described(self._text[at])}): {why}", at)

    def _fail(self, message: str, at: int) -> NoReturn:
        raise _Fault(f"{message}\n at {self._location(at)}")

    def _location(self, at: int) -> str:
        """Line and column of a position, both counted from one."""
        line, start = 1, 0
        for end in _LINE_END.finditer(self._text, 0, at):
            line, start = line + 1, end.end()
        return f"{_SOURCE.format(line)}, column: {at - start + 1}]"


def _surrogates(match: re.Match[str]) -> str:
    point = ord(match[0]) - 0x10000
    return chr(0xD800 + (point >> 10)) + chr(0xDC00 + (point & 0x3FF))


def _span(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The end of the match at `at`; `at` itself when nothing matches."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _continues(character: str) -> bool:
    """Whether Java takes the character for part of an identifier."""
    return unicodedata.category(character) in _PARTS_OF_NAMES or _IGNORABLE.match(character) is not None


def _described(character: str) -> str:
    code = ord(character)
    if code < 0x20 or 0x7F <= code <= 0x9F:
        return f"(CTRL-CHAR, code {code})"
    return f"'{character}' (code {code}{f' / 0x{code:x}' if code > 0xFF else ''})"


def _token(text: str) -> str:
    """Jackson's name for the kind of a token that is no string."""
    if text[0] in _KINDS:
        return f"START_{_KINDS[text[0]].upper()}"
    if text in _STANDARD_WORDS:
        return f"VALUE_{text.upper()}"
    return "VALUE_NUMBER_INT" if text.removeprefix("-").isdecimal() else "VALUE_NUMBER_FLOAT"
