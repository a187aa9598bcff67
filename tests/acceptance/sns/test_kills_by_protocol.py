"""A worker is killed after the endpoints of each protocol answered, before or just after it wrote that down: each
published message arrives at each of them."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from cns_common.process import kill_points
from lab.harness.endpoints import Endpoint
from lab.harness.own_redis import OwnRedis
from lab.harness.running import Up, running
from lab.harness.service import REGION
from lab.harness.waiting import wait_until
from tests.acceptance.sns.test_remote_queues import account_in, subscribe
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all
from tests.private_servers.mailing import MailService, new_address, text_of
from tests.private_servers.own_exim import OwnExim

pytestmark = pytest.mark.extended

MESSAGES = 10
KILLED_AT = 8
"""Jobs of a round: three confirmations, and one for each message."""
PHONE = "+15550004711"
LEASE_S = 31
Arrived = Callable[[], Counter[str]]
"""How often each text has arrived so far."""


@pytest.fixture(scope="module")
def mail_server() -> Iterator[OwnExim]:
    with OwnExim() as server:
        yield server


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The service that has the queue of another service."""
    with running(tmp_path_factory.mktemp("other") / "data") as service:
        yield service


class ChannelInbox:
    """The messages of a Redis channel, from now on."""

    def __init__(self, server: OwnRedis, stack: ExitStack) -> None:
        self._texts: Counter[str] = Counter()
        self.url = f"{server.url.rpartition('/')[0]}/{uuid.uuid4().hex}"
        client = stack.enter_context(redis.Redis(port=server.port))
        self._messages = client.pubsub()
        self._messages.subscribe(self.url.rpartition("/")[2])
        stack.callback(self._messages.close)

    def arrived(self) -> Counter[str]:
        while (message := self._messages.get_message(timeout=0.05)) is not None:
            if message["type"] == "message":
                self._texts[json.loads(message["data"])["Message"]] += 1
        return self._texts


class QueueInbox:
    """The messages that arrived in a queue. Messages that were seen are deleted."""

    def __init__(self, service: Up, topic_arn: str = "") -> None:
        self._texts: Counter[str] = Counter()
        self.sqs = service.client("sqs", tries=3)
        self.queue = queue_for(self.sqs, topic_arn)
        self.arn = arn_of(self.sqs, self.queue)

    def arrived(self) -> Counter[str]:
        for message in receive_all(self.sqs, self.queue):
            self._texts[json.loads(message["Body"])["Message"]] += 1
            self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return self._texts


def _mails(server: OwnExim, address: str) -> Counter[str]:
    texts = [text_of(mail).partition("\n")[0].strip() for mail in server.mails(address)]
    return Counter(text for text in texts if text.startswith("message "))


def _posted(gateway: Endpoint) -> Counter[str]:
    documents = [json.loads(record["body"]) for record in gateway.look()["messages"] if record["status"] == 200]
    return Counter(document["message"] for document in documents if document["destination"] == PHONE)


def _at_endpoint(endpoint: Endpoint) -> Counter[str]:
    return Counter(json.loads(record["body"])["Message"] for record in endpoint.notifications())


@pytest.mark.parametrize("point", [kill_points.JOB_DELIVERED, kill_points.JOB_SETTLED])
def test_nothing_published_is_lost(
    tmp_path: Path, mail_server: OwnExim, own_redis: OwnRedis, other: Up, receiver: str, point: str
) -> None:
    gateway, endpoint, killed = Endpoint(receiver), Endpoint(receiver), tmp_path / "killed"
    account = account_in(other.client("sqs"))
    keys = {"key_id": other.environment["AWS_ACCESS_KEY_ID"], "secret": other.environment["AWS_SECRET_ACCESS_KEY"]}
    environment = {
        "CNS_SMTP_URL": mail_server.url,
        "CNS_CA_BUNDLE": str(mail_server.ca_file),
        "CNS_MAIL_FROM": "no-reply@notifications.example.com",
        "CNS_GATEWAY_URL": gateway.url,
        "CNS_REMOTE_QUEUES": json.dumps([{"arns": f"arn:aws:sqs:{REGION}:{account}:*", "url": other.url, **keys}]),
        kill_points.VARIABLE: f"{point}:{KILLED_AT}:{killed}",
    }
    with ExitStack() as stack:
        site = stack.enter_context(running(tmp_path / "data", "--test-clock", environment=environment))
        worker, heard = site.pids()["worker"], ChannelInbox(own_redis, stack)
        sns = site.client("sns", tries=3)
        topic = Topic(sns, str(sns.create_topic(Name="t")["TopicArn"]))
        theirs, ours, address = QueueInbox(other), QueueInbox(site, topic.arn), new_address()
        MailService(site, mail_server).subscribed(topic, address)
        topic.subscribe("redis", heard.url)
        topic.subscribe("sms", PHONE)
        topic.subscribe("http", endpoint.url)
        topic.subscribe("sqs", ours.arn)
        subscribe(topic, theirs.sqs, theirs.queue)
        ways: dict[str, Arrived] = {
            "email": lambda: _mails(mail_server, address),
            "redis": heard.arrived,
            "gateway": lambda: _posted(gateway),
            "http": lambda: _at_endpoint(endpoint),
            "a queue of this service": ours.arrived,
            "a queue of another service": theirs.arrived,
        }
        texts = {f"message {number}" for number in range(MESSAGES)}
        for text in sorted(texts):
            topic.publish(text)

        def all_arrived() -> bool:
            return all(texts <= arrived().keys() for arrived in ways.values())

        wait_until(killed.exists, site.said)
        wait_until(lambda: site.pids()["worker"] != worker, site.said)
        site.advance(LEASE_S)  # the killed worker's leases end
        wait_until(all_arrived, lambda: str({way: texts - arrived().keys() for way, arrived in ways.items()}))
        repeated = {way: sum(arrived()[text] - 1 for text in texts) for way, arrived in ways.items()}
        print(f"{point}: sent again {repeated}")
        assert site.metric("cns_notifications_dropped_total") == 0
