"""MessageGroupId and MessageDeduplicationId: which topics require them, and the default of a missing one."""

from __future__ import annotations

import hashlib
import re

from cns.errors import invalid_parameter
from cns.limits import GROUP_ID_CHARS_MAX
from cns.publishing.requests import PublishRequest
from cns.topics.cache import TopicView

_ID = re.compile(r"[!-~]+")
_NOT_OF_THIS_TYPE = (
    "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this "
    "topic type"
)
_NO_DEDUPLICATION = (
    "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)


def ids_of(view: TopicView, request: PublishRequest) -> tuple[str, str]:
    """Return the group id and the deduplication id; '' stands for none."""
    if view.fifo:
        return fifo_group_id(request), _deduplication_id(view, request)
    if request.deduplication_id is not None:
        raise invalid_parameter(_NOT_OF_THIS_TYPE)
    return ("" if request.group_id is None else _checked("MessageGroupId", request.group_id)), ""


def fifo_group_id(request: PublishRequest) -> str:
    """Return the group id. AWS requires it before it looks up the topic."""
    if request.group_id is None:
        raise invalid_parameter("The MessageGroupId parameter is required for FIFO topics")
    return _checked("MessageGroupId", request.group_id)


def _deduplication_id(view: TopicView, request: PublishRequest) -> str:
    """The explicit id, else SHA-256 of the message text without attributes."""
    if request.deduplication_id is not None:
        return _checked("MessageDeduplicationId", request.deduplication_id)
    if not view.dedup_by_content:
        raise invalid_parameter(_NO_DEDUPLICATION)
    return hashlib.sha256(request.message.encode()).hexdigest()


def _checked(name: str, text: str) -> str:
    if len(text) > GROUP_ID_CHARS_MAX or not _ID.fullmatch(text):
        raise invalid_parameter(
            f"The {name} parameter can only include alphanumeric and punctuation characters. "
            f"1 to {GROUP_ID_CHARS_MAX} in length"
        )
    return text
