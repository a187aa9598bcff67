"""Error texts of wrong settings, in words for an operator, without terms of the library that reads settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

SHOWN_CHARS_MAX = 200
_HIDDEN = "…"
_TEXTS: Mapping[str, str] = {
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "path_not_file": "there is no such file",
    "string_too_short": "must not be empty",
    "missing": "must be given",
    "extra_forbidden": "is not known here",
    "string_type": "must be a text",
    "tuple_type": "must be a JSON array",
    "model_type": "must be a JSON object",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
}


def describe(error: ValidationError, fields: Mapping[str, FieldInfo], secret: frozenset[str]) -> str:
    """One line that names each wrong setting, its value, and what it must be. The values of `secret` settings, and of
    URLs with a user, are hidden."""
    faults = [
        f"CNS_{_variable(fault)}={_value_text(fault, secret)}: {_text(fault, fields)}" for fault in error.errors()
    ]
    return "; ".join(faults)


def _variable(fault: ErrorDetails) -> str:
    name, *inside = fault["loc"]
    return str(name).upper() + "".join(f"[{part}]" for part in inside)


def _value_text(fault: ErrorDetails, secret: frozenset[str]) -> str:
    text = str(fault["input"])
    if fault["loc"][0] in secret or "@" in text:
        return _HIDDEN
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= SHOWN_CHARS_MAX else f"{line[:SHOWN_CHARS_MAX]}{_HIDDEN}"


def _text(fault: ErrorDetails, fields: Mapping[str, FieldInfo]) -> str:
    context: Mapping[str, Any] = fault.get("ctx", {})
    if fault["type"] == "value_error":
        return str(context["error"])
    if fault["type"] == "string_pattern_mismatch":
        return _form(fault, fields)
    text = _TEXTS.get(fault["type"])
    return text.format(**context) if text is not None else "is not valid"


def _form(fault: ErrorDetails, fields: Mapping[str, FieldInfo]) -> str:
    """The description of a field with a pattern tells what the pattern means."""
    name, *inside = fault["loc"]
    field = fields[str(name)]
    if inside:
        members = getattr(getattr(field.annotation, "__args__", (None,))[0], "model_fields", {})
        field = members.get(str(inside[-1]), field)
    return f"must be {field.description}" if field.description else "is not of the form it must have"
