"""The filters of the topics that a process publishes to: read at first need, kept up with the logs of the topics."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from weakref import WeakValueDictionary

from msgspec.structs import replace

from cns.filters.topic_filters import HeldFilters
from cns.publishing.filter_changes import Audience, FilterChange
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import IndexState

FILTERS_HELD_MAX = 200_000
"""Of all topics together; those used least recently go. A topic that is in use is held, however many it has."""
PAGE_FILTERS = 100
PAGES_BETWEEN_LOOKS = 5
"""At the log, while many filters are read."""
TRIES_IN_PEACE = 3
"""Reads of an audience in the hope that no filter changes meanwhile."""


class FilterKeeper:
    def __init__(self, store: SubscriptionStore, filters_held_max: int) -> None:
        self._store = store
        self._filters_held_max = filters_held_max
        self._topics: OrderedDict[str, HeldFilters] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def audience(self, topic_arn: str, after: str, n: int) -> tuple[Audience, HeldFilters | None]:
        """A topic's audience, and its filters of the same moment; None: it has none.

        An answer is used when nothing had changed since the filters were last brought up to date, and nobody has
        brought them further while it was on its way: else it may be older than they are, and without a subscription
        that has lost its filter between the two. Where filters change all the time, nobody else may bring them further.
        """
        held = self._topics.get(topic_arn)
        for tries in count():
            if held is not None and tries >= TRIES_IN_PEACE:
                overtaken = await self._overtaken(topic_arn, held, after, n)
                if overtaken is not None:
                    return overtaken, held
            if held is not None and held.behind:
                await self._follow(topic_arn, held, held.place)
            place, revision = ("", 0) if held is None else (held.place, held.revision)
            audience = await self._store.audience(topic_arn, after, n, place)
            if not audience.log:
                self._topics.pop(topic_arn, None)
                return audience, None
            if held is None or audience.anew:
                held = await self._read(topic_arn, held, audience)
            elif audience.log != place:
                await self._follow(topic_arn, held, place, audience)
            elif (held.place, held.revision) == (place, revision):
                if topic_arn in self._topics:  # else others needed the room
                    self._topics.move_to_end(topic_arn)
                return audience, held
        raise AssertionError("counts for ever")

    async def _overtaken(self, topic_arn: str, held: HeldFilters, after: str, n: int) -> Audience | None:
        """An audience, of which the filters are brought to its own moment, and beside its ids those that were found to
        have lost their filters since; None when the filters cannot be followed."""
        async with self._lock(topic_arn):
            audience = await self._store.audience(topic_arn, after, n, held.place)
            if not audience.log or audience.anew:
                return None
            unfiltered = await self._settle(topic_arn, held, audience.changes)
            held.place = audience.log
        last = audience.ids[-1] if len(audience.ids) >= n else ""  # what is behind it belongs to another page
        beside = [one for one in unfiltered if one > after and (not last or one <= last)]
        return replace(audience, ids=sorted({*audience.ids, *beside}))

    async def _follow(self, topic_arn: str, held: HeldFilters, place: str, audience: Audience | None = None) -> None:
        """Read what has changed, and what is behind. One at a time: what is read first is entered first."""
        async with self._lock(topic_arn):
            if held.place != place:
                return  # somebody else has followed meanwhile
            await self._settle(topic_arn, held, () if audience is None else audience.changes)
            if audience is not None:
                held.place = audience.log

    async def _read(self, topic_arn: str, outdated: HeldFilters | None, audience: Audience) -> HeldFilters:
        """All filters of a topic, as of the audience's place in the log or later. Who comes while another reads them
        waits for those."""
        async with self._lock(topic_arn):
            there = self._topics.get(topic_arn)
            if there is not None and there is not outdated:
                return there
            held = HeldFilters()
            held.place = audience.log
            after = ""
            for pages in count(1):
                page = await self._store.page_of_filtered(topic_arn, after, PAGE_FILTERS)
                if not page:
                    break
                for subscription in page:
                    if subscription.index_state is IndexState.FILTERED:  # else its entry is older than its record
                        held.put(subscription)
                after = page[-1].id
                if pages % PAGES_BETWEEN_LOOKS == 0:
                    await self._catch_up(topic_arn, held)
                await asyncio.sleep(0)  # others get their turn, also where the store answers at once
            await self._settle(topic_arn, held, audience.changes)
            self._topics[topic_arn] = held
            self._topics.move_to_end(topic_arn)
            self._make_room()
            return held

    async def _catch_up(self, topic_arn: str, held: HeldFilters) -> None:
        """The log goes on while filters are read. Were it to come round meanwhile, they would have to be read anew."""
        audience = await self._store.audience(topic_arn, "", 1, held.place)
        if audience.log and not audience.anew:
            await self._settle(topic_arn, held, audience.changes)
            held.place = audience.log

    async def _settle(self, topic_arn: str, held: HeldFilters, changes: Sequence[FilterChange]) -> list[str]:
        """The ids of those that get everything now."""
        wanted = dict(held.behind)
        for change in changes:
            wanted[change.id] = max(change.version, wanted.get(change.id, 0))
        found = await self._store.get([f"{topic_arn}:{one}" for one in wanted]) if wanted else []
        records = {subscription.id: subscription for subscription in found}
        for one, version in wanted.items():
            held.settle(FilterChange(one, version), records.get(one))
        return [one for one, record in records.items() if record.index_state is IndexState.CONFIRMED]

    def _make_room(self) -> None:
        filters = sum(len(held) for held in self._topics.values())
        while filters > self._filters_held_max and len(self._topics) > 1:
            _, held = self._topics.popitem(last=False)
            filters -= len(held)

    def _lock(self, topic_arn: str) -> asyncio.Lock:
        return self._locks.setdefault(topic_arn, asyncio.Lock())
