"""A topic as its owner set it up."""

from __future__ import annotations

import msgspec

from cns.archives.model import Archive
from cns.limits import FIFO_SUFFIX
from cns_common.arn import topic_arn


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's record. `id` is its incarnation: a topic created anew under the same name has another one, and none of
    the old one's subscriptions. `version` rises with each change."""

    id: str
    account: str
    region: str
    name: str
    created_ms: int
    version: int = 1
    attributes: dict[str, str] = {}
    """Those that were set, checked and normalised; the rest have their defaults."""
    tags: dict[str, str] = {}
    archive: Archive | None = None
    """What its ArchivePolicy asked for."""

    @property
    def fifo(self) -> bool:
        return self.name.endswith(FIFO_SUFFIX)

    @property
    def arn(self) -> str:
        return topic_arn(self.region, self.account, self.name)


class TopicCounts(msgspec.Struct, frozen=True):
    """Of an account."""

    standard: int = 0
    fifo: int = 0
