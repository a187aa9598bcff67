"""Messages from the live archive of a topic, through the store of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cns.archives.model import SKEW_MS_MAX, Archive
from cns.stores.contract import ArchiveStore
from cns_cli.replay.model import PAGE_MESSAGES, PastArchive, PastMessage, ReplaySource


class LiveArchive(PastArchive):
    """The live archive. Its positions are message keys."""

    def __init__(self, archives: ArchiveStore, archive: Archive) -> None:
        self._archives = archives
        self._archive = archive

    @property
    def id(self) -> str:
        return self._archive.id

    @property
    def first_ms(self) -> int:
        return self._archive.began_ms - SKEW_MS_MAX

    def end_ms(self, now_ms: int) -> int:
        """Exclude messages published from now on: a replay into the same topic might never end."""
        return now_ms + 1

    def is_whole_in(self, archive: Archive, since_ms: int, until_ms: int) -> bool:
        return archive.id == self._archive.id

    def messages_in(self, since_ms: int, until_ms: int) -> LiveSource:
        return LiveSource(self._archives, self._archive.id, since_ms, until_ms)


class LiveSource(ReplaySource):
    def __init__(self, archives: ArchiveStore, archive_id: str, since_ms: int, until_ms: int) -> None:
        self._archives = archives
        self._archive_id = archive_id
        self._since_ms = since_ms
        self._until_ms = until_ms

    async def messages(self, after: str, after_ms: int) -> AsyncIterator[list[PastMessage]]:
        while True:
            since_ms = max(self._since_ms, after_ms - SKEW_MS_MAX)
            page = await self._archives.page(self._archive_id, since_ms, self._until_ms, after, PAGE_MESSAGES)
            if not page:
                return
            yield [PastMessage(each.key, each.notification) for each in page]
            after, after_ms = page[-1].key, max(after_ms, *[each.at_ms for each in page])
