"""`kill -9` of `cns replay` at random points: the next run continues, nothing is missed, at most a page is repeated."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from cns.archives.model import ArchivedMessage, archive_key
from cns.archives.replay_jobs import replay_queue
from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.notification import Notification
from cns.queue_port.inline import InlineQueuePort
from cns.subscriptions.subscription import Subscription
from cns.topics.topic import Topic
from cns_cli.replay.model import PAGE_MESSAGES
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.process.kill_points import REPLAY_RECORDED, REPLAY_SENT, STORE_COMMIT, STORE_COMMITTED, VARIABLE
from cns_common.sqlite.database import Database
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.harness.processes import BIN
from lab.harness.waiting import PATIENCE_S
from tests.archived_topic import archived_topic, fill_archive
from tests.integration.workers.embedded_context import no_queue

KILLS = 10
COUNT_MAX = 4
MESSAGES = KILLS * COUNT_MAX * PAGE_MESSAGES + 50
GROUPS = 3
SEED = 20

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1800)]  # starts a process for each kill


@pytest.mark.parametrize("name", ["standard", "ordered.fifo"])
def test_ten_kills_of_one_replay(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    subscription = asyncio.run(fill(data, name))
    words = ["replay", "--topic", subscription.topic_arn, "--to", subscription.arn, "--data", str(data)]
    randomly = random.Random(f"{SEED} {name}")
    points = (REPLAY_SENT, REPLAY_RECORDED, STORE_COMMIT, STORE_COMMITTED)
    for number in range(KILLS):
        order = f"{randomly.choice(points)}:{randomly.randint(1, COUNT_MAX)}:{tmp_path / f'reached-{number}'}"
        killed = run(words, {VARIABLE: order})
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    finished = run(words, {})
    assert finished.returncode == 0, finished.stderr
    assert "at most 100 messages are sent twice" in finished.stderr
    assert not (data / "replays").exists()
    texts = asyncio.run(queued_texts(data, subscription))
    counted = Counter(text for group in texts.values() for text in group)
    assert counted.keys() == {str(number) for number in range(MESSAGES)}
    repeated = counted.total() - MESSAGES
    if subscription.topic_arn.endswith(".fifo"):
        assert repeated == 0, "the queue knows the jobs of a repeated page"
        for group in texts.values():
            assert group == sorted(group, key=int)
    else:
        assert 0 < repeated <= KILLS * PAGE_MESSAGES


def run(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "cns", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, **environment},
    )


async def fill(data: Path, name: str) -> Subscription:
    """Make a topic with an archive, its messages, and a subscription, in a data directory without a service."""
    now_ms = Clock().now_ms()
    topic = archived_topic(name, now_ms, began_days_ago=1, kept_days=30)
    notifications = [_message(topic, number, now_ms - DAY_MS // 2 + number) for number in range(MESSAGES)]
    archived = [ArchivedMessage(each.timestamp_ms, archive_key(each), now_ms + DAY_MS, each) for each in notifications]
    return await fill_archive(data, topic, [archived])


def _message(topic: Topic, number: int, at_ms: int) -> Notification:
    return Notification(
        id=f"00000000-0000-4000-9000-{number:012d}",
        topic_arn=topic.arn,
        timestamp_ms=at_ms,
        texts={"default": str(number)},
        sequence_number=f"{number:020d}" if topic.fifo else "",
        message_group_id=f"g{number % GROUPS}" if topic.fifo else "",
        message_deduplication_id="the same" if topic.fifo else "",
    )


async def queued_texts(data: Path, subscription: Subscription) -> dict[str, list[str]]:
    """The texts of all jobs for the subscription, by message group and in the order of the queue."""
    clock = Clock()
    database = Database(data, clock)
    port = InlineQueuePort(EmbeddedEngine(database, clock), clock, no_queue)
    database.start(asyncio.get_running_loop())
    queue = replay_queue(subscription.topic_arn)
    texts: dict[str, list[str]] = {}
    while leased := await port.receive(queue, 10, 60_000, 0):
        for each in leased:
            job = jobs.decode(each.body)
            assert isinstance(job, EndpointJob)
            assert job.subscriptions == (subscription.arn,)
            assert job.inline is not None
            assert job.inline.replayed
            texts.setdefault(job.inline.message_group_id, []).append(job.inline.texts["default"])
        await port.settle(queue, [each.handle for each in leased])
    await database.close()
    return texts
