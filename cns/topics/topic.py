"""The record of a topic."""

from __future__ import annotations

import msgspec

from cns.archives.model import Archive
from cns.limits import FIFO_SUFFIX
from cns_common.arn import topic_arn
from cns_common.store_keys import Key


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """`id` identifies one incarnation: a topic that is deleted and created again has another id, and none of its
    earlier subscriptions. `version` rises with each change."""

    id: Key
    account: Key
    region: Key
    name: Key
    created_ms: int
    version: int = 1
    attributes: dict[str, str] = {}
    """The attributes that were set, in stored form; others have their defaults."""
    tags: dict[str, str] = {}
    archive: Archive | None = None
    """Set while the topic has an ArchivePolicy."""

    @property
    def fifo(self) -> bool:
        return self.name.endswith(FIFO_SUFFIX)

    @property
    def arn(self) -> str:
        return topic_arn(self.region, self.account, self.name)


class TopicCounts(msgspec.Struct, frozen=True):
    """The number of an account's topics, by kind."""

    standard: int = 0
    fifo: int = 0
