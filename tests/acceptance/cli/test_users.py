"""`cns account user`: named users of an account, as AWS's own client and the commands see them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from cns_pytest.processes import exports
from lab.harness.processes import keys_in
from lab.harness.running import cns, running
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of

REFUSED = "InvalidClientTokenId"


class User(NamedTuple):
    account: str
    name: str
    keys: dict[str, str]

    @property
    def arn(self) -> str:
        return f"arn:aws:iam::{self.account}:user/{self.name}"


@pytest.fixture(scope="module")
def account(service: Service) -> str:
    return str(service.client("sts").get_caller_identity()["Account"])


@pytest.fixture
def add(service: Service, account: str, new_name: Callable[[], str]) -> Callable[[], User]:
    """A new user of the first account."""

    def make() -> User:
        name = f"{new_name()}+=,.@_"
        return User(account, name, keys_in(service.cns("account", "user", "add", account, name).stdout))

    return make


def who(service: Service, keys: dict[str, str]) -> str:
    """The ARN that these keys belong to, or the code of the refusal."""
    try:
        return str(service.client("sts", **keys).get_caller_identity()["Arn"])
    except ClientError as error:
        return str(error.response["Error"]["Code"])


def wait_who(service: Service, keys: dict[str, str], expected: str) -> None:
    wait_until(lambda: who(service, keys) == expected, lambda: who(service, keys))


def code(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as refusal:
        call()
    return str(refusal.value.response["Error"]["Code"])


@pytest.mark.spec("identity.user")
def test_a_user_is_who_calls(service: Service, account: str, new_name: Callable[[], str]) -> None:
    name = new_name()
    printed = service.cns("account", "user", "add", account, name).stdout
    assert set(exports(printed)) == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
    }
    user = User(account, name, keys_in(printed))
    wait_who(service, user.keys, user.arn)
    identity = service.client("sts", **user.keys).get_caller_identity()
    assert identity["Account"] == account
    assert re.fullmatch("AIDA[A-Z2-7]{17}", identity["UserId"])
    listed = service.cns("account", "user", "list", account).stdout
    assert f"{name} {identity['UserId']} active {user.keys['key']} active" in listed.splitlines()
    assert user.keys["secret"] not in listed


def test_a_users_subscriptions_name_him(service: Service, add: Callable[[], User], new_name: Callable[[], str]) -> None:
    user = add()
    wait_who(service, user.keys, user.arn)
    sns, sqs = service.client("sns", **user.keys), service.client("sqs", **user.keys)
    topic = sns.create_topic(Name=new_name())["TopicArn"]
    queue = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    subscription = sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn_of(sqs, queue), ReturnSubscriptionArn=True
    )["SubscriptionArn"]
    attributes = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    assert (attributes["SubscriptionPrincipal"], attributes["Owner"]) == (user.arn, user.account)
    sqs.send_message(QueueUrl=queue, MessageBody="m")
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, AttributeNames=["SenderId"])["Messages"]
    assert message["Attributes"]["SenderId"] == service.client("sts", **user.keys).get_caller_identity()["UserId"]


@pytest.mark.spec("policy.identity", "policy.account")
def test_policies_name_users(service: Service, add: Callable[[], User], queue: str, topic: Topic) -> None:
    alice, bob = add(), add()
    for user in (alice, bob):
        wait_who(service, user.keys, user.arn)
    deny = {"Effect": "Deny", "Principal": {"AWS": alice.arn}}

    def send(keys: dict[str, str]) -> None:
        service.client("sqs", **keys).send_message(QueueUrl=queue, MessageBody="m")

    def publish(keys: dict[str, str]) -> None:
        service.client("sns", **keys).publish(TopicArn=topic.arn, Message="m")

    denied = policy({**deny, "Action": "sqs:SendMessage", "Resource": "*"})
    service.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": denied})
    topic.set("Policy", policy({**deny, "Action": "sns:Publish", "Resource": topic.arn}))
    for call in (send, publish):
        call({})
        call(bob.keys)
    assert code(lambda: send(alice.keys)) == "AccessDenied"
    assert code(lambda: publish(alice.keys)) == "AuthorizationError"


@pytest.mark.spec("identity.user-disabled")
def test_two_keys_overlap_while_they_are_rotated(service: Service, add: Callable[[], User]) -> None:
    user = add()
    key = ("account", "user", "key")
    whose = (user.account, user.name)
    renewed = keys_in(service.cns(*key, "add", *whose).stdout)
    wait_who(service, renewed, user.arn)
    assert who(service, user.keys) == user.arn
    full = service.cns(*key, "add", *whose, check=False)
    assert (full.returncode, full.stderr) == (1, f"cns: user {user.name} has 2 keys, as many as it may\n")
    service.cns(*key, "disable", *whose, user.keys["key"])
    wait_who(service, user.keys, REFUSED)
    assert who(service, renewed) == user.arn
    service.cns(*key, "enable", *whose, user.keys["key"])
    wait_who(service, user.keys, user.arn)
    service.cns(*key, "delete", *whose, user.keys["key"])
    wait_who(service, user.keys, REFUSED)
    assert who(service, renewed) == user.arn


@pytest.mark.spec("identity.user-disabled")
def test_a_user_is_disabled_and_deleted(service: Service, add: Callable[[], User]) -> None:
    user, other = add(), add()
    whose = (user.account, user.name)
    wait_who(service, user.keys, user.arn)
    service.cns("account", "user", "disable", *whose)
    wait_who(service, user.keys, REFUSED)
    assert code(lambda: service.client("sqs", **user.keys).list_queues()) == REFUSED
    wait_who(service, other.keys, other.arn)
    service.cns("account", "user", "enable", *whose)
    wait_who(service, user.keys, user.arn)
    service.cns("account", "user", "delete", *whose)
    wait_who(service, user.keys, REFUSED)
    assert user.name not in service.cns("account", "user", "list", user.account).stdout
    assert who(service, other.keys) == other.arn


def test_what_is_refused(service: Service, add: Callable[[], User]) -> None:
    user = add()
    for words, text in (
        (("add", user.account, user.name), f"account {user.account} has a user {user.name} already"),
        (("add", user.account, "a b"), "a user's name is 1 to 64 of A-Z a-z 0-9 _ + = , . @ -: 'a b'"),
        (("add", "999999999999", "bob"), "there is no account 999999999999"),
        (("list", "999999999999"), "there is no account 999999999999"),
        (("delete", user.account, "bob"), f"account {user.account} has no user bob"),
        (("key", "delete", user.account, user.name, "AKIA"), f"user {user.name} has no key AKIA"),
    ):
        refused = service.cns("account", "user", *words, check=False)
        assert (refused.returncode, refused.stderr) == (1, f"cns: {text}\n")


@pytest.mark.extended
def test_with_the_service_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    account = json.loads(cns("account", "create", "--data", data, "--json").stdout)["account"]
    keys = keys_in(cns("account", "user", "add", account, "alice", "--data", data).stdout)
    other = keys_in(cns("account", "user", "add", account, "bob", "--data", data).stdout)
    cns("account", "user", "disable", account, "bob", "--data", data)
    with running(data) as service:
        assert who(service, keys) == f"arn:aws:iam::{account}:user/alice"
        assert who(service, other) == REFUSED


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
