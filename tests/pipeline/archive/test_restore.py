"""A new service with an empty store gets everything back from the archive table alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lab.harness.running import Up, running
from tests.acceptance.cli.test_replay import by_group, publish_all_kinds
from tests.acceptance.sns.test_fifo import drained, fifo_queue
from tests.acceptance.sns.test_replay import MONTH
from tests.acceptance.topics import Topic, arn_of
from tests.pipeline.archive.archives import table_rows
from tests.pipeline.archive.test_archive import archive

OF_ITS_SERVICE = ("Signature", "SigningCertURL", "UnsubscribeURL", "SequenceNumber", "Replayed")
"""Members of a notification that a new service makes itself, or that say that it is a replay."""
CHANGED = (1, 2, 3, 4, 5, 12, 14, 16)
"""Columns of the table that differ for a message that was restored: those of its archive, of its order, the mark."""


def create_topics(service: Up) -> tuple[Topic, Topic]:
    """A standard topic and a FIFO topic, which both archive."""
    sns = service.client("sns")
    standard = sns.create_topic(Name="standard", Attributes={"ArchivePolicy": MONTH})
    attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "true", "ArchivePolicy": MONTH}
    return Topic(sns, standard["TopicArn"]), Topic(
        sns, sns.create_topic(Name="t.fifo", Attributes=attributes)["TopicArn"]
    )


def test_a_new_service_is_filled_from_the_table(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    before, table = _first_life(tmp_path / "one", out)
    with running(tmp_path / "two", "--auth=off") as service:
        topics = create_topics(service)
        queues = _subscribed(service, topics)
        for topic in topics:
            words = ("--topic", topic.arn, "--to", topic.arn, "--from-table", str(out))
            assert service.cns("replay", *words).stdout.startswith("6 messages sent of 6, to ")
        assert _received(service, queues) == before
        archive(tmp_path / "two", out / "again")
    restored = table_rows(out / "again")
    assert [_lasting(row) for row in restored] == [_lasting(row) for row in table]
    assert not list((tmp_path / "two" / "replays").iterdir() if (tmp_path / "two" / "replays").exists() else [])


def test_a_topic_gets_its_own_messages_from_the_table_and_archives_none_twice(
    spark: SparkSession, tmp_path: Path, out: Path
) -> None:
    with running(tmp_path / "one", "--auth=off") as service:
        topics = create_topics(service)
        queues = _subscribed(service, topics)
        publish_all_kinds(topics[1], ordered=True)
        assert len(drained(service.client("sqs"), queues[1], 6)) == 6
        assert archive(tmp_path / "one", out) == "6 new messages of 2 archived topics are in OUT/archive"
        arn = topics[1].arn
        said = service.cns("replay", "--topic", arn, "--to", arn, "--from-table", str(out)).stdout
        assert said.startswith("6 messages sent of 6, to ")
        assert len(drained(service.client("sqs"), queues[1], 6)) == 6
        assert archive(tmp_path / "one", out) == "0 new messages of 2 archived topics are in OUT/archive"


def _first_life(data: Path, out: Path) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Messages that subscribers of a first service received, and the table of its archives, made while it runs."""
    with running(data, "--auth=off") as service:
        standard, ordered = topics = create_topics(service)
        queues = _subscribed(service, topics)
        publish_all_kinds(standard, ordered=False)
        publish_all_kinds(ordered, ordered=True)
        received = _received(service, queues)
        assert archive(data, out) == "12 new messages of 2 archived topics are in OUT/archive"
    return received, table_rows(out)


def _subscribed(service: Up, topics: tuple[Topic, Topic]) -> list[str]:
    """A queue for each topic."""
    sqs = service.client("sqs")
    queues = [fifo_queue(sqs, fifo=False), fifo_queue(sqs)]
    for topic, queue in zip(topics, queues, strict=True):
        topic.subscribe("sqs", arn_of(sqs, queue))
    return queues


def _received(service: Up, queues: list[str]) -> list[Any]:
    """The notifications of the standard topic by id, those of the FIFO topic by group and in their order."""
    sqs = service.client("sqs")
    standard = [_whole(json.loads(each["Body"])) for each in drained(sqs, queues[0], 6)]
    ordered = by_group(drained(sqs, queues[1], 6))
    return [
        sorted(standard, key=lambda each: str(each["MessageId"])),
        {group: [_whole(body) for body in bodies] for group, bodies in ordered.items()},
    ]


def _whole(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in OF_ITS_SERVICE}


def _lasting(row: tuple[Any, ...]) -> list[Any]:
    return [value for column, value in enumerate(row) if column not in CHANGED]
