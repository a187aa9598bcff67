"""Runs a bulk replay: read a page of the archive, send the wanted messages, record the progress."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from msgspec.structs import replace

from cns.notification import Notification
from cns_cli.replay.model import PastMessage, ReplayDestination, ReplaySource
from cns_cli.replay.pace import Pace
from cns_cli.replay.progress import Progress, ReplayRecord
from cns_common.process.kill_points import REPLAY_RECORDED, REPLAY_SENT, kill_point

Wanted = Callable[[Notification], bool]


class NoDestination(ReplayDestination):
    """The destination of `--dry-run`."""

    async def send(self, notifications: Sequence[Notification]) -> int:
        return len(notifications)


class NoRecord(ReplayRecord):
    """The record of `--dry-run`."""

    def save(self, progress: Progress) -> None: ...


class BulkReplay:
    def __init__(
        self,
        source: ReplaySource,
        destination: ReplayDestination,
        wanted: Wanted,
        record: ReplayRecord,
        pace: Pace,
        show: Callable[[Progress], None],
    ) -> None:
        self._source = source
        self._destination = destination
        self._wanted = wanted
        self._record = record
        self._pace = pace
        self._show = show

    async def run(self, progress: Progress) -> Progress:
        """Continue from `progress` to the end. Returns the last progress."""
        async for page in _split(self._source.messages(progress.position, progress.at_ms), self._pace.page_messages):
            chosen = [each.notification for each in page if self._wanted(each.notification)]
            await self._pace.wait(len(chosen))
            sent = await self._destination.send(chosen) if chosen else 0
            kill_point(REPLAY_SENT)
            progress = replace(
                progress,
                position=page[-1].position,
                at_ms=max(progress.at_ms, page[-1].notification.timestamp_ms),
                read=progress.read + len(page),
                sent=progress.sent + sent,
            )
            self._record.save(progress)
            kill_point(REPLAY_RECORDED)
            self._show(progress)
        return progress


async def _split(pages: AsyncIterator[list[PastMessage]], n: int) -> AsyncIterator[list[PastMessage]]:
    async for page in pages:
        for part in _parts(page, n):
            yield part


def _parts(page: list[PastMessage], n: int) -> Iterable[list[PastMessage]]:
    return (page[start : start + n] for start in range(0, len(page), n))
