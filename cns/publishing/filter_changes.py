"""What a store tells a publish: who gets everything, and what has become of the filters of the others since last time.

A topic has a *log* of the changes of its filters: of every change by which a confirmed subscription gets, loses or
changes its filter, or one with a filter is confirmed, set aside or removed. Whoever holds the filters in memory keeps
up with it, and knows by where it stands that nothing has changed.
"""

from __future__ import annotations

import msgspec


class FilterChange(msgspec.Struct, frozen=True, array_like=True):
    """The subscription of this id is to be read anew, until its record is of this version or later, or gone."""

    id: str
    version: int


class Audience(msgspec.Struct, frozen=True):
    """`ids`: of the confirmed subscriptions without a filter. `log`: where the topic's log stands; '' when it has
    none, and no subscription a filter."""

    ids: list[str]
    log: str = ""
    changes: list[FilterChange] = []
    """Since the place in the log that was asked with."""
    anew: bool = False
    """That place is not in the log any more: all filters are to be read, and what `changes` names once more."""
