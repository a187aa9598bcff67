"""The answer of a subscription store to a publish: unfiltered subscriptions, and filter changes since the last read.

A topic has a *log* of filter changes. An entry is added when a confirmed subscription gets, loses or changes its
filter, and when a subscription with a filter is confirmed, marked as removed, or deleted. A process that holds the
filters in memory reads the entries after its own position; an unchanged position means that its filters are current.
"""

from __future__ import annotations

import msgspec


class FilterChange(msgspec.Struct, frozen=True, array_like=True):
    """Read this subscription again until its record has this version or a later one, or is gone."""

    id: str
    version: int


class Audience(msgspec.Struct, frozen=True):
    """`ids`: confirmed subscriptions without a filter. `log`: position of the topic's log of filter changes; '' when
    it has none, and no subscription has a filter."""

    ids: list[str]
    log: str = ""
    changes: list[FilterChange] = []
    """Entries after the position given with the request."""
    reload_all: bool = False
    """The given position is no longer in the log: read all filters, and then those that `changes` names again."""
