"""The drill of two data centres: one is lost under load, the other takes over, the first returns.

Nothing accepted is lost, duplicates are counted, no stale cache is trusted, and both are never in use at once. Run by
`make test-ring`."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import redis
from botocore.exceptions import BotoCoreError, ClientError

from lab.harness.servers import Ring
from lab.harness.service import total
from lab.harness.waiting import wait_until
from tests.acceptance.topics import arn_of, queue_for
from tests.faults.two_sites import NAMES, RunningSite, new_account, two_sites

HELD = 20
LOAD_MESSAGES = 150
"""Accepted before the site is lost, and again by the other one."""
FIFO_MESSAGES = 20
PUBLISHES = 20
"""Messages published to a topic at each site."""
HIDDEN_S = 43_200

pytestmark = pytest.mark.ring


@pytest.fixture(scope="module")
def ring() -> Iterator[Ring]:
    with Ring(1, NAMES) as ring:
        yield ring


class Load:
    """Sends one message after another within its block; collects the accepted bodies."""

    def __init__(self, site: RunningSite, url: str, prefix: str) -> None:
        self._sqs = site.client("sqs", read_s=5)
        self._url = url
        self._prefix = prefix
        self._end = Event()
        self._thread = Thread(target=self._run)
        self.accepted: list[str] = []
        self.unknown: set[str] = set()

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def await_messages(self, count: int) -> None:
        wait_until(lambda: len(self.accepted) >= count, lambda: f"{len(self.accepted)} of {count} accepted")

    def _run(self) -> None:
        number = 0
        while not self._end.is_set():
            body = f"{self._prefix}{number}"
            number += 1
            try:
                self._sqs.send_message(QueueUrl=self._url, MessageBody=body)
            except (ClientError, BotoCoreError):
                self.unknown.add(body)
            else:
                self.accepted.append(body)


def _hold(sqs: Any, url: str, count: int) -> dict[str, str]:
    """Receive messages and hide them; receipt handles by body."""
    held: dict[str, str] = {}
    while len(held) < count:
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=min(10, count - len(held)), VisibilityTimeout=HIDDEN_S, WaitTimeSeconds=5
        )
        held |= {message["Body"]: message["ReceiptHandle"] for message in answer.get("Messages", [])}
    return held


def _drain(sqs: Any, url: str, at_least: set[str]) -> Counter[str]:
    """Receive and delete until all of `at_least` came and the queue seems empty. Returns how often each body came."""
    came: Counter[str] = Counter()
    empty = 0
    while empty < 3 or (at_least - came.keys() and empty < 30):  # a few empty answers, or many
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
        empty = 0 if messages else empty + 1
        for message in messages:
            came[message["Body"]] += 1
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return came


def _lacking(site: RunningSite, name: str) -> str:
    """The line of `cns site show` about writes that a site may lack; '' for none."""
    lines = [line.split("\t") for line in site.run("site", "show").stdout.splitlines()]
    return " ".join(word for line in lines if line[:2] == ["lacks writes", name] for word in line[2:])


def _twice(came: Counter[str]) -> int:
    return came.total() - len(came)


def _refused(site: RunningSite, url: str) -> bool:
    with pytest.raises(ClientError) as error:
        site.client("sqs").send_message(QueueUrl=url, MessageBody="refused")
    return bool(error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503)  # the HTTP status


def _send_fifo(sqs: Any, url: str, prefix: str) -> list[str]:
    bodies = [f"{prefix}{number}" for number in range(FIFO_MESSAGES)]
    for body in bodies:
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body)
    return bodies


class Drill:
    """The steps of the drill, and its account of accepted, held and lost messages."""

    def __init__(self, first: RunningSite, second: RunningSite) -> None:
        self.first = first
        self.second = second
        self.sqs, self.there = first.client("sqs", attempts=5), second.client("sqs", attempts=5)
        self.url = self.sqs.create_queue(QueueName="standard")["QueueUrl"]
        self.fifo = self.sqs.create_queue(QueueName="f.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        self.topic = first.client("sns", attempts=5).create_topic(Name="news")["TopicArn"]
        self.inbox = queue_for(self.sqs, self.topic, "inbox")
        self.loads: list[Load] = []
        self.ordered: list[str] = []
        self.published: list[str] = []
        self.held: dict[str, str] = {}
        self.held_again: dict[str, str] = {}

    def at_second(self, url: str) -> str:
        return url.replace(self.first.api.url, self.second.api.url)

    def subscribe(self) -> None:
        attributes = {"RawMessageDelivery": "true"}
        self.first.client("sns", attempts=5).subscribe(
            TopicArn=self.topic, Protocol="sqs", Endpoint=arn_of(self.sqs, self.inbox), Attributes=attributes
        )

    def publish(self, site: RunningSite) -> None:
        sns = site.client("sns", attempts=5)
        texts = [f"{site.name}-{number}" for number in range(PUBLISHES)]
        for text in texts:
            sns.publish(TopicArn=self.topic, Message=text)
        self.published += texts

    def lose_first(self, ring: Ring) -> None:
        """Lose the first site under load, with messages in flight. Its API process is only paused: it comes back with
        what it knew."""
        with Load(self.first, self.url, "a") as load:
            self.loads.append(load)
            load.await_messages(LOAD_MESSAGES)
            self.held = _hold(self.sqs, self.url, HELD)
            self.ordered += _send_fifo(self.sqs, self.fifo, "a")
            self.publish(self.first)
            self.first.signal_api(signal.SIGSTOP)
            ring.kill(1)

    def take_over(self) -> None:
        refused = self.second.run("site", "activate", "dc2", check=False)
        assert refused.returncode == 1
        assert "--other-site-lost" in refused.stderr
        self.second.run("site", "activate", "dc2", "--other-site-lost", *self._as_it_is())
        self.second.wait_ready()
        health = self.second.health()
        assert (health["site"]["active"], health["site"]["other_reachable"]) == ("dc2", False)
        assert health["status"] == "yellow"
        self.second.await_workers(1)

    def _as_it_is(self) -> list[str]:
        """The option for an activation without a repair, if the second site did not answer for a moment before."""
        lacking = _lacking(self.second, "dc2")
        print(f"\nthe second site lacked writes: {lacking or 'no'}")
        return ["--repaired"] if lacking else []

    def use_second(self) -> None:
        self.held_again = _hold(self.there, self.at_second(self.url), HELD)
        fills = total(self.second.samples(), "cns_cache_lookups_total", result="filling")
        assert fills > 0, "its cache was not filled from Cassandra"
        with Load(self.second, self.at_second(self.url), "b") as load:
            self.loads.append(load)
            load.await_messages(LOAD_MESSAGES)
        self.ordered += _send_fifo(self.there, self.at_second(self.fifo), "b")
        self.publish(self.second)

    def return_to_first(self, ring: Ring) -> None:
        """Its Redis has what it had; its processes stand by until an operator says otherwise, which is refused before a
        repair: it lacks what the second one accepted (seen: 153 of 408 messages)."""
        ring.restart(1)
        self.first.signal_api(signal.SIGCONT)
        wait_until(self.first.stands_by, self.first.api.output)
        assert _refused(self.first, self.url), "both sites in use"
        wait_until(lambda: self.second.health()["site"]["other_reachable"], self.second.api.output)
        wait_until(lambda: "to be repaired" in _lacking(self.first, "dc1"), self.second.api.output)
        repair = ("repair", "-full", self.first.environment["CNS_CASSANDRA_KEYSPACE"])
        refused = self.first.run("site", "activate", "dc1", check=False)
        assert refused.returncode == 1
        assert f"nodetool {' '.join(repair)}" in refused.stderr
        assert self.second.is_ready()
        ring.nodetool(1, *repair)
        self.first.run("site", "activate", "dc1")
        self.first.wait_ready()
        wait_until(self.second.stands_by, self.second.api.output)
        self.first.await_workers(1)
        assert _refused(self.second, self.at_second(self.url)), "both sites in use"

    def account_cache(self) -> None:
        """The keys of queues in the second site's Redis expire, since no process uses them; the set of names stays."""
        with redis.Redis.from_url(self.second.redis.url) as client:
            prefix = f"cqs:{self.second.environment['CNS_CASSANDRA_KEYSPACE']}"
            lives_s = {key: client.ttl(key) for key in client.scan_iter(f"{prefix}*")}
        assert lives_s
        for_good = [key for key, life_s in lives_s.items() if life_s == -1]  # -1: the key does not expire
        assert [key for key in for_good if b":filled:" not in key] == []

    def account(self) -> None:
        accepted = {body for load in self.loads for body in load.accepted}
        unknown = {body for load in self.loads for body in load.unknown}
        expected = accepted - self.held_again.keys()
        came = _drain(self.sqs, self.url, expected)
        lost, invented = expected - came.keys(), came.keys() - accepted - unknown
        twice = {body for body, times in came.items() if times > 1}
        early = self.held_again.keys() & came.keys()
        again = self.held.keys() & (came.keys() | self.held_again.keys())
        print(
            f"\naccepted {len(accepted)}, lost {len(lost)}, twice {len(twice)}; in flight at the lost site"
            f" and delivered again {len(again)} of {HELD}; hidden by the second, delivered by the first {len(early)}"
        )
        assert (lost, invented, twice, early) == (set(), set(), set(), set())
        assert len(again) == HELD

    def account_handles(self) -> None:
        """Handles of the second site are good at the first one: they delete their messages there."""
        for handle in self.held_again.values():
            self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

        def left() -> list[str]:
            return list(self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"].values())

        wait_until(lambda: left() == ["0", "0"], lambda: str(left()))

    def move_in_order(self, ring: Ring) -> None:
        """A worker of the first site is killed while both answer: the second one, just repaired, may lack its last
        writes."""
        repair = ("repair", "-full", self.first.environment["CNS_CASSANDRA_KEYSPACE"])
        wait_until(lambda: "grows" not in _lacking(self.first, "dc2"), self.first.api.output)
        ring.nodetool(2, *repair)
        self.first.kill_worker()
        refused = self.first.run("site", "activate", "dc2", check=False)
        assert refused.returncode == 1
        assert "site dc2 may lack writes that were accepted" in refused.stderr
        wait_until(lambda: not self.first.stands_by(), self.first.api.output)
        wait_until(lambda: "to be repaired" in _lacking(self.first, "dc2"), self.first.api.output)
        ring.nodetool(2, *repair)
        self.first.run("site", "activate", "dc2")
        self.second.wait_ready()
        assert not _lacking(self.second, "dc2")
        wait_until(self.first.stands_by, self.first.api.output)

    def account_others(self) -> None:
        assert _drain_ordered(self.sqs, self.fifo, len(self.ordered)) == self.ordered
        delivered = _drain(self.sqs, self.inbox, set(self.published))
        assert set(delivered) == set(self.published)
        print(f"FIFO {len(self.ordered)} in order; notifications {len(self.published)}, twice {_twice(delivered)}")


def test_a_site_is_lost_and_returns(tmp_path: Path, ring: Ring) -> None:
    with two_sites(tmp_path, ring) as (first, second):
        assert first.stands_by()
        first.run("site", "activate", "dc1")
        first.wait_ready()
        first.await_workers(1)
        new_account(first, second)
        drill = Drill(first, second)
        drill.subscribe()
        assert _refused(second, drill.at_second(drill.url)), "both sites in use"
        drill.lose_first(ring)
        drill.take_over()
        drill.use_second()
        drill.return_to_first(ring)
        drill.account_cache()
        drill.account()
        drill.account_handles()
        drill.account_others()
        drill.move_in_order(ring)


def _drain_ordered(sqs: Any, url: str, count: int) -> list[str]:
    bodies: list[str] = []
    while len(bodies) < count:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5).get("Messages", [])
        if not messages:
            return bodies
        for message in messages:
            bodies.append(message["Body"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return bodies
