"""Checks the tags of topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cns.errors import invalid_parameter, length_violation, null_member
from cns.limits import TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX, TAGS_MAX
from cns_common.errors import RequestError

_NOT_TEXT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def read_tags(given: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The tags of a request, in its order."""
    tags: dict[str, str] = {}
    for number, tag in enumerate(given, 1):
        key = _member(tag, number, "key", TAG_KEY_CHARS_MAX, least=1)
        if key in tags:
            raise invalid_parameter("Duplicated keys are not allowed.")
        tags[key] = _member(tag, number, "value", TAG_VALUE_CHARS_MAX)
    return tags


def with_tags(current: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    after = {**current, **tags}
    if len(after) > TAGS_MAX:
        raise RequestError("TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded")
    return after


def _member(tag: Mapping[str, str], number: int, name: str, chars_max: int, least: int = 0) -> str:
    path = f"tags.{number}.member.{name}"
    text = tag.get(name.capitalize())
    if text is None:
        raise null_member(path)
    if _NOT_TEXT.search(text):
        raise invalid_parameter("Tags")
    if not least <= len(text) <= chars_max:
        raise length_violation(text, path, least, chars_max)
    return text
