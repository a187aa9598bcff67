"""A message's group and deduplication ids: what each kind of topic asks for, and what it makes of a missing one."""

from __future__ import annotations

import hashlib
import re

from cns.errors import invalid
from cns.limits import GROUP_ID_CHARS_MAX
from cns.publishing.requests import Draft
from cns.topics.cache import TopicView

_ID = re.compile(r"[!-~]+")
_NOT_OF_THIS_TYPE = (
    "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this "
    "topic type"
)
_NO_DEDUPLICATION = (
    "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)


def ids_of(view: TopicView, draft: Draft) -> tuple[str, str]:
    """Group and deduplication id, '' for none."""
    if view.fifo:
        return group_of_fifo(draft), _deduplication_id(view, draft)
    if draft.deduplication_id is not None:
        raise invalid(_NOT_OF_THIS_TYPE)
    return ("" if draft.group_id is None else _checked("MessageGroupId", draft.group_id)), ""


def group_of_fifo(draft: Draft) -> str:
    """AWS asks for it before it looks for the topic."""
    if draft.group_id is None:
        raise invalid("The MessageGroupId parameter is required for FIFO topics")
    return _checked("MessageGroupId", draft.group_id)


def _deduplication_id(view: TopicView, draft: Draft) -> str:
    """Of the content: SHA-256 of the message as it was sent, its attributes left out."""
    if draft.deduplication_id is not None:
        return _checked("MessageDeduplicationId", draft.deduplication_id)
    if not view.dedup_by_content:
        raise invalid(_NO_DEDUPLICATION)
    return hashlib.sha256(draft.message.encode()).hexdigest()


def _checked(name: str, text: str) -> str:
    if len(text) > GROUP_ID_CHARS_MAX or not _ID.fullmatch(text):
        raise invalid(name)
    return text
