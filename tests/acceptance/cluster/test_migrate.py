"""`cns migrate` of a real service: what its callers have still holds, what was pending arrives, and a killed run
goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from cns_common.process import kill_points
from cns_common.process.kill_points import VARIABLE
from cns_pytest.http import fetch
from lab.harness.cluster import Cluster, fresh_store
from lab.harness.cluster import running as running_cluster
from lab.harness.clustered import Clustered
from lab.harness.endpoints import Endpoint
from lab.harness.processes import BIN, plain_environment
from lab.harness.running import running
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.topics import Topic, queue_for, receive_all

KILLED = -9
REFUSED = 74
IN_KEYSPACE = 78
DELAY_S = 900
DAY_MS = 86_400_000
SENT = 25
POINTS = [
    f"{kill_points.MOVE_SOURCE_MARKED}:1",
    f"{kill_points.MOVE_TARGET_MARKED}:1",
    f"{kill_points.MOVE_KIND_COPIED}:4",
    f"{kill_points.MOVE_KIND_COPIED}:19",
    f"{kill_points.MOVE_RECORDS_COPIED}:1",
    f"{kill_points.MOVE_QUEUE_COPIED}:2",
    f"{kill_points.MOVE_FILES_COPIED}:1",
    f"{kill_points.MOVE_SOURCE_CLOSED}:1",
    f"{kill_points.MOVE_TARGET_OPENED}:1",
]
TABLES = ("accounts", "queues", "topics", "subscriptions", "slots", "dedup", "signing_keys")


def migrate(
    store: dict[str, str], *words: str | Path, point: str = "", flag: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does, with a shell's variables of the cluster."""
    order = {VARIABLE: f"{point}:{flag}"} if point else {}
    return subprocess.run(
        [BIN / "cns", "migrate", *words, "--json"],
        env=plain_environment(**store, **order),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def moved(store: dict[str, str], *words: str | Path) -> dict[str, Any]:
    done = migrate(store, *words)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables of an empty cluster, which has no master key yet."""
    with fresh_store() as settings:
        del settings["CNS_MASTER_KEY"]
        yield {**settings, "CNS_DATA": str(tmp_path / "machine")}


def test_what_callers_have_still_holds(tmp_path: Path, endpoint: Endpoint, store: dict[str, str]) -> None:
    data = tmp_path / "data"
    with running(data) as before:
        sns, sqs = before.client("sns"), before.client("sqs")
        keys = dict(before.environment)
        plain, fifo = queue_for(sqs, name="plain"), queue_for(sqs, name="in-order.fifo", FifoQueue="true")
        for n in range(SENT):
            sqs.send_message(QueueUrl=plain, MessageBody=str(n))
            group = {"MessageGroupId": "g", "MessageDeduplicationId": str(n)}
            sqs.send_message(QueueUrl=fifo, MessageBody=str(n), **group)
        sqs.send_message(QueueUrl=plain, MessageBody="later", DelaySeconds=DELAY_S)
        (taken,) = sqs.receive_message(QueueUrl=plain)["Messages"]
        topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
        subscription = topic.subscribe("http", endpoint.url)
        first = topic.publish("first")
        endpoint.wait(distinct_messages=1)
        (notification,) = endpoint.notifications()
        endpoint.behave(status=503)
        pending = topic.publish("pending")
        endpoint.wait(distinct_messages=2)
    answer = moved(store, "--from", data, "--to", "cassandra")
    assert answer["messages"] >= 2 * SENT + 2
    assert (tmp_path / "machine" / "master.key").read_bytes() == (data / "master.key").read_bytes()
    with pytest.raises(AssertionError), running(data):  # it says why, and ends
        pass
    endpoint.behave(status=200)
    key = (data / "master.key").read_text().strip()
    settings = {name: text for name, text in store.items() if name != "CNS_DATA"}
    with running_cluster(Cluster(tmp_path, {**settings, "CNS_MASTER_KEY": key}, 1, 1)) as cluster:
        after = Clustered(url=cluster.url, environment=keys, cluster=cluster)
        sns, sqs = after.client("sns"), after.client("sqs")
        plain_then = sqs.get_queue_url(QueueName="plain")["QueueUrl"]
        assert plain_then.removeprefix(after.url) == plain.removeprefix(before.url)
        received = receive_all(sqs, plain_then, SENT)
        assert {one["Body"] for one in received} == {str(n) for n in range(SENT)}
        assert taken["MessageId"] in {one["MessageId"] for one in received}
        attributes = sqs.get_queue_attributes(QueueUrl=plain_then, AttributeNames=["All"])["Attributes"]
        assert attributes["ApproximateNumberOfMessagesDelayed"] == "1"
        fifo_then = sqs.get_queue_url(QueueName="in-order.fifo")["QueueUrl"]
        again = sqs.send_message(QueueUrl=fifo_then, MessageBody="x", MessageGroupId="g", MessageDeduplicationId="3")
        in_order = drained(sqs, fifo_then)
        assert [one["Body"] for one in in_order] == [str(n) for n in range(SENT)]
        assert again["MessageId"] == in_order[3]["MessageId"]
        wait_until(lambda: delivered_to(endpoint) == {first, pending}, lambda: str(endpoint.look()))
        assert sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]["Endpoint"] == endpoint.url
        link = json.loads(notification["body"])["UnsubscribeURL"].replace(before.url, after.url)
        assert fetch(link)[0] == 200
        assert [one["SubscriptionArn"] for one in Topic(sns, topic.arn).subscriptions()] == ["Deleted"]


def delivered_to(endpoint: Endpoint) -> set[str]:
    """The ids of the messages that it took."""
    return {json.loads(one["body"])["MessageId"] for one in endpoint.notifications() if one["status"] == 200}


def drained(sqs: Any, queue: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < SENT:
        for one in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)["Messages"]:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=one["ReceiptHandle"])
            found.append(one)
    return found


# -- kills -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a service that was stopped."""
    data = tmp_path_factory.mktemp("filled") / "data"
    with running(data) as service:
        sns, sqs = service.client("sns"), service.client("sqs")
        topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
        for name, more in (("plain", {}), ("other", {}), ("f.fifo", {"FifoQueue": "true"})):
            queue = queue_for(sqs, topic.arn, name, **more)
            for n in range(SENT):
                group = {"MessageGroupId": str(n % 3), "MessageDeduplicationId": str(n)} if more else {}
                sqs.send_message(QueueUrl=queue, MessageBody=str(n), **group)
    with closing(apsw.Connection(str(data / "store.db"))) as connection:  # the cases take longer than five minutes
        connection.execute("UPDATE dedup SET until = until + ?", (DAY_MS,))
    return data


def counts(data: Path) -> dict[str, int]:
    with closing(apsw.Connection(str(data / "store.db"))) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").get for table in TABLES}


@pytest.mark.extended
@pytest.mark.parametrize("back", [False, True], ids=["to the cluster", "back"])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_goes_on(tmp_path: Path, filled: Path, store: dict[str, str], point: str, *, back: bool) -> None:
    data, second = tmp_path / "data", tmp_path / "second"
    store["CNS_MASTER_KEY"] = (filled / "master.key").read_text().strip()
    shutil.copytree(filled, data, ignore=shutil.ignore_patterns("*.socket"))
    there, home = ("--from", data, "--to", "cassandra", "--yes"), ("--from", "cassandra", "--to", second, "--yes")
    if back:
        moved(store, *there)
    words = home if back else there
    killed = migrate(store, *words, point=point, flag=tmp_path / "flag")
    assert killed.returncode == KILLED, killed.stderr
    served = [directory for directory in (data, second, None) if serves(store, directory)]
    target = second if back else None
    if point.startswith(kill_points.MOVE_TARGET_OPENED):
        assert served == [target]
    else:
        unmarked = point.startswith(kill_points.MOVE_SOURCE_MARKED) and not back  # the empty keyspace
        assert served == ([target] if unmarked else [])
        moved(store, *words)
    if not back:
        moved(store, *home)
    assert counts(second) == counts(filled)


def serves(store: dict[str, str], data: Path | None) -> bool:
    """Whether a command of the service opens the data directory, or else the cluster."""
    where = {} if data is None else {"CNS_DATA": str(data), "CNS_STORE": "embedded"}
    done = subprocess.run(
        [BIN / "cns", "account", "list"],
        env=plain_environment(**{**store, **where}),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode in (0, REFUSED, IN_KEYSPACE), done.stderr
    return done.returncode == 0
