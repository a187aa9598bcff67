"""`cns pipeline archive`: each archived message is in the table once, whole, and is read again without Java."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from cns.archives.model import Archive
from cns.notification import Notification
from cns.stores.cassandra import CassandraArchiveStore, CassandraTopicStore
from cns.topics.topic import Topic
from cns_cli.replay.model import PastMessage
from cns_cli.replay.table_archive import TableArchive, open_table
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_pipeline.archive.manifest import ArchivedUntil, date_of, read_manifest
from cns_pipeline.archive.reader import StorePlace
from cns_pipeline.arguments import make_arguments
from cns_pipeline.jobs.archive import ArchiveOptions, run, store_place
from cns_pipeline.location import located
from cns_pipeline.storage import Storage
from lab.harness.keyspace import keyspace
from lab.harness.parts import need
from tests.pipeline.archive.archives import (
    FIFO,
    STANDARD,
    Archives,
    append,
    files_below,
    messages,
    table_rows,
    topic_named,
)

FOREVER = 2**60


@pytest.fixture
def cassandra_address() -> Iterator[CassandraAddress]:
    """A keyspace of its own."""
    need("cassandra")
    with keyspace() as address:
        yield address


def archive(data: Path, out: Path, **options: int) -> str:
    """Run the job in the session of the tests. Returns its first line."""
    said = run(make_arguments(data, None, out), store_place(data), ArchiveOptions(**options))
    return said.text.replace(str(out), "OUT")


def read_again(out: Path, topic_arn: str, since_ms: int = 0, until_ms: int = FOREVER) -> list[Notification]:
    return [each.notification for each in past_messages(out, topic_arn, since_ms, until_ms)]


def past_messages(
    out: Path, topic_arn: str, since_ms: int = 0, until_ms: int = FOREVER, after: str = ""
) -> list[PastMessage]:
    """Messages that a replay from the table reads behind a position."""

    async def work() -> list[PastMessage]:
        source = open_table(out, topic_arn).messages_in(since_ms, until_ms)
        return [each async for page in source.messages(after, 0) for each in page]

    return asyncio.run(work())


def test_messages_come_out_of_the_table_as_they_went_in(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    now_ms = Clock().real_ms()
    topics = [topic_named(name, now_ms) for name in (STANDARD, FIFO)]
    archived = {topic.arn: messages(topic, range(30), now_ms) for topic in topics}
    for topic in topics:
        append(tmp_path, topic, archived[topic.arn])
    assert archive(tmp_path, out) == "60 new messages of 2 archived topics are in OUT/archive"
    for topic in topics:
        assert read_again(out, topic.arn) == archived[topic.arn]
    some = [each for each in archived[topics[0].arn] if now_ms - DAY_MS <= each.timestamp_ms < now_ms - DAY_MS // 2]
    assert read_again(out, topics[0].arn, now_ms - DAY_MS, now_ms - DAY_MS // 2) == some != []
    first, *others = past_messages(out, topics[1].arn)
    assert past_messages(out, topics[1].arn, after=first.position) == others
    before = table_rows(out)
    assert archive(tmp_path, out) == "0 new messages of 2 archived topics are in OUT/archive"
    assert table_rows(out) == before


def test_a_message_published_again_keeps_its_time(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """The archive of a FIFO topic has the time at which it accepted the message. A file of an earlier version, which
    lacks the other one, is read as well."""
    now_ms = Clock().real_ms()
    topic = topic_named(FIFO, now_ms)
    (past,) = messages(topic, range(1), now_ms)
    again = replace(past, timestamp_ms=now_ms - 300 * DAY_MS, replayed=True, sequence_number=f"{7:020d}")
    append(tmp_path, topic, [past, again], accepted_ms=now_ms)
    archive(tmp_path, out)
    assert read_again(out, topic.arn) == [past, again]
    assert read_again(out, topic.arn, now_ms, now_ms + 1) == [again]
    (earlier, _) = sorted((out / "archive").rglob("*.parquet"))
    with duckdb.connect() as connection:
        rows = f"(SELECT * EXCLUDE (published_ms) FROM read_parquet('{earlier}', hive_partitioning = false))"
        connection.execute(f"COPY {rows} TO '{earlier}.new' (FORMAT parquet)")
    Path(f"{earlier}.new").replace(earlier)
    assert read_again(out, topic.arn) == [past, again]


def test_a_table_says_whether_a_topics_archive_has_its_messages(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """The messages of an earlier archive of the topic are not in the present one."""
    now_ms = Clock().real_ms()
    topic = topic_named(FIFO, now_ms)
    assert topic.archive is not None
    everything = messages(topic, range(30), now_ms)
    own = Archive(topic.archive.id, everything[0].timestamp_ms)
    append(tmp_path, topic, everything)
    archive(tmp_path, out)
    table = open_table(out, topic.arn)
    assert table.is_whole_in(own, table.first_ms, table.end_ms(0))
    later = Archive("another", now_ms)
    assert not table.is_whole_in(later, table.first_ms, table.end_ms(0)), "a new service"
    both = replace(
        read_manifest(Storage(None), located(out / "archive"), topic.arn),
        until=(ArchivedUntil("earlier", 1), ArchivedUntil(own.id, now_ms)),
    )
    table = TableArchive(out, both)
    assert table.is_whole_in(own, own.began_ms, table.end_ms(0))
    assert not table.is_whole_in(own, table.first_ms, own.began_ms)
    with pytest.raises(StartError, match="with --until"):
        table.is_whole_in(own, table.first_ms, own.began_ms + 1)


def test_a_day_that_grows_is_one_file_and_late_messages_are_found(
    spark: SparkSession, tmp_path: Path, out: Path
) -> None:
    """A message of a FIFO topic is archived hours after its publish, if no worker ran."""
    now_ms = Clock().real_ms()
    topic = topic_named(FIFO, now_ms)
    everything = messages(topic, range(30), now_ms)
    late = everything[-6:-3]
    append(tmp_path, topic, [each for each in everything if each not in late])
    archive(tmp_path, out)
    append(tmp_path, topic, late)
    assert archive(tmp_path, out).startswith("3 new messages of 1 archived topic are in ")
    assert read_again(out, topic.arn) == everything
    files = [path for path in files_below(out) if path.endswith(".parquet")]
    dates = {date_of(each.timestamp_ms) for each in everything}
    assert len(files) == len({path.rpartition("/")[0] for path in files}) == len(dates)


def test_old_messages_that_came_late_are_read_by_an_option(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """As those that a replay publishes again into a standard topic."""
    now_ms = Clock().real_ms()
    topic = topic_named(STANDARD, now_ms)
    everything = messages(topic, range(30), now_ms)
    append(tmp_path, topic, everything[6:])
    archive(tmp_path, out)
    append(tmp_path, topic, everything[:6])
    assert archive(tmp_path, out, again_hours=5 * 24).startswith("6 new messages of 1 archived topic are in ")
    assert read_again(out, topic.arn) == everything


def test_messages_that_are_too_old_leave_the_table(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    now_ms = Clock().real_ms()
    topic = topic_named(STANDARD, now_ms)
    everything = messages(topic, range(30), now_ms)
    append(tmp_path, topic, everything)
    archive(tmp_path, out)
    said = archive(tmp_path, out, keep_days=1)
    first_kept_ms = (now_ms - DAY_MS) // DAY_MS * DAY_MS
    kept = [each for each in everything if each.timestamp_ms >= first_kept_ms]
    assert f"removed {len(everything) - len(kept)} messages" in said
    assert 0 < len(kept) < len(everything)
    assert read_again(out, topic.arn) == kept
    assert archive(tmp_path, out, keep_days=1).splitlines()[0].startswith("0 new messages")
    assert read_again(out, topic.arn) == kept


def test_archives_in_cassandra(spark: SparkSession, cassandra_address: CassandraAddress, out: Path) -> None:
    """Spark's tasks read them from there; what is archived late is found, too."""
    now_ms = Clock().real_ms()
    topics = [topic_named(name, now_ms) for name in (STANDARD, FIFO)]
    archived = {topic.arn: messages(topic, range(30), now_ms) for topic in topics}
    place, arguments = StorePlace(cassandra=cassandra_address), make_arguments(None, None, out)
    asyncio.run(append_in_cassandra(cassandra_address, topics, archived, late=False))
    assert run(arguments, place).text.startswith("57 new messages of 2 ")
    asyncio.run(append_in_cassandra(cassandra_address, topics, archived, late=True))
    assert run(arguments, place).text.startswith("3 new messages of 2 ")
    for topic in topics:
        assert read_again(out, topic.arn) == archived[topic.arn]
    assert run(arguments, place).text.startswith("0 new messages of 2 ")


async def append_in_cassandra(
    address: CassandraAddress, topics: list[Topic], archived: dict[str, list[Notification]], *, late: bool
) -> None:
    """Append three messages of the FIFO topic, or all but these."""
    cassandra = await Cassandra.open(address)
    archives = Archives(CassandraTopicStore(cassandra), CassandraArchiveStore(cassandra))
    for topic in topics:
        held_back = archived[topic.arn][-6:-3] if topic.fifo else []
        await archives.create(topic)
        await archives.append(topic, [each for each in archived[topic.arn] if (each in held_back) == late])
    await cassandra.close()


def test_what_cannot_be_read_is_one_line(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    with pytest.raises(StartError, match="there is no store in"):
        archive(tmp_path, out)
    (tmp_path / "store.db").write_bytes(b"no database, but long enough to be taken for one" * 100)
    with pytest.raises(StartError, match="cannot read the archives in"):
        archive(tmp_path, out)
    topic = topic_named(STANDARD, Clock().real_ms())
    with pytest.raises(StartError, match="there is no archive table in"):
        open_table(out / "elsewhere", topic.arn)
    (out / "archive").mkdir()
    with pytest.raises(StartError, match="has no messages of"):
        open_table(out, topic.arn)
