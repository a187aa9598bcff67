"""Validates queue tags."""

from __future__ import annotations

from collections.abc import Mapping

from cns_common.errors import RequestError
from cqs.limits import TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX, TAGS_MAX
from cqs.messages.message_text import encode_text


def merge_tags(name: str, current: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The tags of queue `name` after `added` is merged into them."""
    for key, value in added.items():
        _check(key, value)
    tags = {**current, **added}
    if len(tags) > TAGS_MAX:
        raise _invalid(f"Too many tags added for queue {name}.")
    return tags


def _check(key: str, value: str) -> None:
    if not 1 <= len(key) <= TAG_KEY_CHARS_MAX:
        raise _invalid(f"Tag keys must be between 1 and {TAG_KEY_CHARS_MAX} characters in length.")
    if len(value) > TAG_VALUE_CHARS_MAX:
        raise _invalid(f"Tag values must be between 0 and {TAG_VALUE_CHARS_MAX} characters in length.")
    if key.lower().startswith("aws:"):
        raise _invalid("Tag keys must not start with the reserved prefix aws:.")
    encode_text(key + value, "InvalidParameterValue")


def _invalid(text: str) -> RequestError:
    return RequestError("InvalidParameterValue", text)
