"""Plans a run: the periods of the store's archives that the table may lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cns.archives.model import SKEW_MS_MAX
from cns.archives.policy import retention_ms
from cns.topics.topic import Topic
from cns_common.durations import DAY_MS
from cns_pipeline.archive.contract import ArchiveReader
from cns_pipeline.archive.manifest import ArchiveManifest

SPAN_MS = 3_600_000
"""The period of an archive that one task reads: a busy day has many tasks."""
FIFO_AGAIN_MS = 86_400_000
CLOCK_AHEAD_MS_MAX = 86_400_000
"""The limit of publish times in the future."""


class ArchiveSpan(NamedTuple):
    """The messages of an archive that were published in [since_ms, until_ms)."""

    archive: str
    began_ms: int
    since_ms: int
    until_ms: int


class TopicPlan(NamedTuple):
    """The spans of a topic to read, and the retention of its messages in the table; None: without limit."""

    topic_arn: str
    keep_ms: int | None
    spans: tuple[ArchiveSpan, ...]


def plan_topics(
    reader: ArchiveReader,
    manifest_of: Callable[[str], ArchiveManifest],
    keep_ms: int | None,
    again_ms: int | None,
    now_ms: int,
) -> list[TopicPlan]:
    """Plan to read what was archived since the last run, and a margin before it.

    A message of a standard topic is archived within SKEW_MS_MAX of its publish time, except one that `cns replay`
    publishes again. A message of a FIFO topic is archived at its fan-out, which a stopped worker delays: FIFO_AGAIN_MS
    of FIFO topics are read again. `again_ms` replaces both margins, `keep_ms` the retention periods of the topics'
    policies.
    """
    plans: list[TopicPlan] = []
    for topic in reader.topics():
        kept_ms = retention_ms(topic) if keep_ms is None else keep_ms or None
        margin_ms = (FIFO_AGAIN_MS if topic.fifo else SKEW_MS_MAX) if again_ms is None else again_ms
        first_ms = max(_read_until_ms(topic, manifest_of(topic.arn)) - margin_ms, first_kept_ms(kept_ms, now_ms))
        plans.append(TopicPlan(topic.arn, kept_ms, tuple(_spans(reader, topic, first_ms, now_ms))))
    return plans


def first_kept_ms(keep_ms: int | None, now_ms: int) -> int:
    """The start, in ms since the epoch, of the first day (UTC) that the table keeps."""
    return 0 if keep_ms is None else max(now_ms - keep_ms, 0) // DAY_MS * DAY_MS


def _read_until_ms(topic: Topic, manifest: ArchiveManifest) -> int:
    return 0 if topic.archive is None else manifest.read_until_ms(topic.archive.id)


def _spans(reader: ArchiveReader, topic: Topic, since_ms: int, now_ms: int) -> Iterator[ArchiveSpan]:
    archive = topic.archive
    if archive is None:
        return
    until_ms = now_ms + CLOCK_AHEAD_MS_MAX
    for day in reader.days(archive.id, since_ms, until_ms):
        for start_ms in range(day * DAY_MS, (day + 1) * DAY_MS, SPAN_MS):
            first_ms, end_ms = max(start_ms, since_ms), min(start_ms + SPAN_MS, until_ms)
            if first_ms < end_ms:
                yield ArchiveSpan(archive.id, archive.began_ms, first_ms, end_ms)
