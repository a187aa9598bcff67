"""Faults that only a cluster can have: a change at one API process counts at once at the others, and each process may
be missing."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from lab.harness.clustered import Clustered
from lab.harness.endpoints import Endpoint
from lab.harness.ports import free_port
from lab.harness.processes import BIN, keys_in, stop_all
from lab.harness.running import running
from lab.harness.service import REGION
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.polls import Poll
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one

NAME = "cns.example.test"
SDK_TRIES = 5
"""The default of the SDKs."""


def at(service: Clustered, index: int, queue: str) -> str:
    """The queue's URL at one of the API processes."""
    return queue.replace(service.url, service.cluster.apis[index].url)


def sends(service: Clustered) -> list[float]:
    """SendMessage calls that each API process has answered."""
    counter = ("cns_api_calls_total", frozenset({'operation="SendMessage"'}))
    return [service.samples_at(index).get(counter, 0) for index in (0, 1)]


# -- calls go to each API process in turn -----------------------------------------------------------------------------


@pytest.mark.slice
def test_each_request_goes_to_the_next_process(service: Clustered, sqs: Any, queue: str) -> None:
    before = sends(service)
    for n in range(10):
        sqs.send_message(QueueUrl=queue, MessageBody=str(n))
    assert [now - then for now, then in zip(sends(service), before, strict=True)] == [5, 5]


def test_a_name_with_the_addresses_of_all_processes(
    service: Clustered, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS in turn instead of a balancer: connections are shared out, those of a dead process go to the next one."""
    ports = [urlsplit(api.url).port for api in service.cluster.apis]
    resolved, resolve = itertools.count(), socket.getaddrinfo

    def in_turn(host: Any, *rest: Any, **more: Any) -> Any:
        if host != NAME:
            return resolve(host, *rest, **more)
        first = next(resolved) % len(ports)
        turned = [*ports[first:], *ports[:first]]
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in turned]

    def send() -> None:
        """A client that has no connection yet."""
        url = queue.replace(service.url, f"http://{NAME}")
        service.client("sqs", url=f"http://{NAME}").send_message(QueueUrl=url, MessageBody="x")

    monkeypatch.setattr(socket, "getaddrinfo", in_turn)
    before = sends(service)
    for _ in range(6):
        send()
    assert [now - then for now, then in zip(sends(service), before, strict=True)] == [3, 3]
    ports[0] = free_port()
    for _ in range(4):
        send()
    assert [now - then for now, then in zip(sends(service), before, strict=True)] == [3, 7]


# -- long polls -------------------------------------------------------------------------------------------------------


def test_a_poll_at_one_is_woken_when_a_message_of_the_other_is_due(service: Clustered, queue: str) -> None:
    poll = Poll(service.at(0), at(service, 0, queue))
    poll.start()
    service.at(1).client("sqs").send_message(QueueUrl=at(service, 1, queue), MessageBody="later", DelaySeconds=15)
    assert poll.is_alive()
    service.advance(15)  # less than the poll waits for
    assert poll.bodies() == ["later"]


def test_who_dies_in_a_poll_gets_no_message(service: Clustered, sqs: Any, queue: str) -> None:
    """The balancer tells the API process that the caller is gone."""

    def polls() -> float:
        return service.metric("cns_api_calls_total", operation="ReceiveMessage")

    before = polls()
    poll = ["sqs", "receive-message", "--queue-url", queue, "--wait-time-seconds", "20", "--region", REGION]
    caller = subprocess.Popen(
        [BIN / "aws", "--endpoint-url", service.url, *poll], env={**os.environ, **service.environment}
    )
    try:
        wait_until(lambda: polls() > before, lambda: "nobody waits")
    finally:
        caller.kill()
        caller.wait()
    sqs.send_message(QueueUrl=queue, MessageBody="for who is left")
    assert receive_one(sqs, queue)["Body"] == "for who is left"


# -- what one has changed the other knows -----------------------------------------------------------------------------


def test_queues(service: Clustered, new_name: Callable[[], str]) -> None:
    one, other = service.at(0).client("sqs"), service.at(1).client("sqs")
    name = new_name()
    queue = at(service, 0, one.create_queue(QueueName=name)["QueueUrl"])
    there = at(service, 1, queue.replace(service.cluster.apis[0].url, service.url))
    assert other.get_queue_url(QueueName=name)["QueueUrl"].endswith(name)
    for n in range(10):
        one.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": str(n)})
        told = other.get_queue_attributes(QueueUrl=there, AttributeNames=["VisibilityTimeout"])["Attributes"]
        assert told == {"VisibilityTimeout": str(n)}
    one.delete_queue(QueueUrl=queue)
    with pytest.raises(other.exceptions.QueueDoesNotExist):
        other.send_message(QueueUrl=there, MessageBody="x")


def test_queue_policies(service: Clustered, queue: str, stranger: dict[str, str]) -> None:
    one, guest = service.at(0).client("sqs"), service.at(1).client("sqs", **stranger)
    account = guest_account(service, stranger)
    for _ in range(5):
        with pytest.raises(ClientError, match="AccessDenied"):
            guest.send_message(QueueUrl=at(service, 1, queue), MessageBody="x")
        label = {"QueueUrl": at(service, 0, queue), "Label": "guest"}
        one.add_permission(**label, AWSAccountIds=[account], Actions=["SendMessage"])
        guest.send_message(QueueUrl=at(service, 1, queue), MessageBody="x")
        one.remove_permission(**label)


@pytest.mark.slice
def test_topics(service: Clustered, new_name: Callable[[], str]) -> None:
    one, other = service.at(0).client("sns"), service.at(1).client("sns")
    arn = one.create_topic(Name=new_name())["TopicArn"]
    for n in range(10):
        one.set_topic_attributes(TopicArn=arn, AttributeName="DisplayName", AttributeValue=str(n))
        assert other.get_topic_attributes(TopicArn=arn)["Attributes"]["DisplayName"] == str(n)
    one.delete_topic(TopicArn=arn)
    with pytest.raises(other.exceptions.NotFoundException):
        other.publish(TopicArn=arn, Message="x")


def test_topic_policies(service: Clustered, topic: Topic, stranger: dict[str, str]) -> None:
    one, guest = service.at(0).client("sns"), service.at(1).client("sns", **stranger)
    account = guest_account(service, stranger)
    for _ in range(5):
        with pytest.raises(guest.exceptions.AuthorizationErrorException):
            guest.publish(TopicArn=topic.arn, Message="x")
        one.add_permission(TopicArn=topic.arn, Label="guest", AWSAccountId=[account], ActionName=["Publish"])
        guest.publish(TopicArn=topic.arn, Message="x")
        one.remove_permission(TopicArn=topic.arn, Label="guest")


def test_subscriptions_and_their_attributes(service: Clustered, sqs: Any, topic: Topic) -> None:
    """The workers know of them, too, since they deliver."""
    queue = queue_for(sqs, topic.arn)
    subscription = topic.subscribe("sqs", arn_of(sqs, queue))
    one, other = service.at(0).client("sns"), service.at(1).client("sns")
    for raw in ("true", "false") * 3:
        one.set_subscription_attributes(
            SubscriptionArn=subscription, AttributeName="RawMessageDelivery", AttributeValue=raw
        )
        other.publish(TopicArn=topic.arn, Message="x")
        assert (receive_one(sqs, queue)["Body"] == "x") == (raw == "true")


def test_accounts(service: Clustered) -> None:
    def accounts(keys: dict[str, str]) -> set[str]:
        return {guest_account(service.at(index), keys) for index in (0, 1)}

    keys = keys_in(service.cns("account", "create").stdout)
    (account,) = accounts(keys)
    renewed = keys_in(service.cns("account", "rotate", account).stdout)
    assert accounts(renewed) == {account}
    for index in (0, 1):
        with pytest.raises(ClientError, match="InvalidClientTokenId"):
            guest_account(service.at(index), keys)


def guest_account(service: Clustered, keys: dict[str, str]) -> str:
    return str(service.client("sts", **keys).get_caller_identity()["Account"])


# -- workers ----------------------------------------------------------------------------------------------------------


@pytest.mark.slice
def test_both_workers_deliver(service: Clustered, topic: Topic, endpoint: Endpoint) -> None:
    def delivered() -> dict[str, float]:
        return {
            next(label for label in labels if label.startswith("process=")): value
            for (name, labels), value in service.samples().items()
            if name == "cns_deliveries_total" and 'protocol="http"' in labels and value
        }

    def shares() -> list[float]:
        return [n - before.get(process, 0) for process, n in delivered().items()]

    before = delivered()
    topic.subscribe("http", endpoint.url)
    published = topic.publish_until(
        lambda: len(shares()) == 2 and min(shares()) > 10, lambda: f"the workers' shares: {shares()}"
    )
    endpoint.wait(received=published, accepted=published)


def test_workers_hear_the_commands_of_their_own_cluster(service: Clustered) -> None:
    def nodes(**more: str) -> set[str]:
        done = subprocess.run(
            [BIN / "celery", "-A", "cns_workers", "inspect", "pools", "--json"],
            env={**os.environ, **service.cluster.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return {node.partition("@")[0] for node in json.loads(done.stdout or "{}")}

    assert nodes() == {"worker-1", "worker-2"}
    assert nodes(CNS_CASSANDRA_KEYSPACE="another") == set()


def test_without_workers_calls_are_answered_and_deliveries_wait(
    service: Clustered, topic: Topic, endpoint: Endpoint
) -> None:
    topic.subscribe("http", endpoint.url)
    try:
        assert stop_all(service.cluster.workers) == [0, 0]
        assert json.loads(service.cns("pool", "list", "--json").stdout)["workers"] == {}
        for n in range(4):
            topic.publish(str(n))
        assert [service.at(index).get("/live")[0] for index in (0, 1)] == [200, 200]
    finally:
        service.cluster.start_again(*service.cluster.workers)
    endpoint.wait(received=4, accepted=4)


# -- processes come and go --------------------------------------------------------------------------------------------


def test_an_api_process_is_killed_and_no_caller_sees_it(service: Clustered, queue: str) -> None:
    sent: list[str] = []
    failures: list[ClientError | BotoCoreError] = []
    ended = threading.Event()

    def send(caller: int) -> None:
        sqs = service.client("sqs", tries=SDK_TRIES)
        try:
            for n in range(10_000):
                if ended.is_set():
                    return
                body = f"{caller}-{n}"
                sqs.send_message(QueueUrl=queue, MessageBody=body)
                sent.append(body)
        except (ClientError, BotoCoreError) as error:
            failures.append(error)

    callers = [threading.Thread(target=send, args=(caller,)) for caller in range(4)]
    for caller in callers:
        caller.start()
    victim = service.cluster.apis[0]
    try:
        wait_until(lambda: len(sent) > 50)
        victim.kill()
        at_death = len(sent)
        wait_until(lambda: failures or len(sent) > at_death + 100)
    finally:
        service.cluster.start_again(service.cluster.apis[0])
        ended.set()
        for caller in callers:
            caller.join()
    assert failures == []
    bodies = {message["Body"] for message in receive_all(service.client("sqs", tries=SDK_TRIES), queue, len(sent))}
    assert set(sent) <= bodies


def test_cns_up_is_one_more_machine(
    service: Clustered, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in service.cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CNS_PUBLIC_URL")
    with running(tmp_path / "data", "--api", "2") as up:
        up.environment.update(service.environment)
        poll = Poll(service, queue)
        poll.start()
        up.client("sqs").send_message(QueueUrl=queue.replace(service.url, up.url), MessageBody="hello")
        assert poll.bodies() == ["hello"]
