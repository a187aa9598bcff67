"""LocalStack's `/_aws/sns` under `cns up --compat localstack`: what tests look at that send to phones."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from cns_pytest.http import fetch
from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.acceptance.topics import arn_of, receive_one

ACCOUNT = "000000000000"
REGION = "us-east-1"
KEYS = {"key": "test", "secret": "test", "region_name": REGION}
ATTRIBUTES = {"a": {"DataType": "String", "StringValue": "b"}}
TEXTS = "/_aws/sns/sms-messages"
PUSHED = "/_aws/sns/platform-endpoint-messages"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("localstack") / "data", "--compat", "localstack") as started:
        yield started


@pytest.fixture
def sns(stack: Up) -> Any:
    return stack.client("sns", **KEYS)


@pytest.fixture
def topic(sns: Any, new_name: Any) -> str:
    return str(sns.create_topic(Name=new_name())["TopicArn"])


@pytest.fixture
def number() -> str:
    return f"+1555{uuid.uuid4().int % 10**7:07}"


def page(stack: Up, path: str, **query: str) -> dict[str, Any]:
    status, body = stack.get(f"{path}?{urlencode(query)}")
    assert status == 200, body
    shown: dict[str, Any] = json.loads(body)
    return shown


def texts(stack: Up, number: str, at_least: int) -> list[dict[str, Any]]:
    def come() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = page(stack, TEXTS, phoneNumber=number)["sms_messages"][number]
        return found

    wait_until(lambda: len(come()) >= at_least)
    return come()


def forget(stack: Up, path: str, **query: str) -> None:
    assert fetch(f"{stack.url}{path}?{urlencode(query)}", method="DELETE") == (204, b"")


@pytest.mark.spec("localstack.sms-messages")
def test_text_messages(stack: Up, sns: Any, topic: str, number: str) -> None:
    first = sns.publish(PhoneNumber=number, Message="only you", MessageAttributes=ATTRIBUTES)["MessageId"]
    (direct,) = texts(stack, number, 1)
    assert direct == {
        "PhoneNumber": number,
        "TopicArn": None,
        "SubscriptionArn": None,
        "MessageId": first,
        "Message": "only you",
        "MessageAttributes": {"a": {"Type": "String", "Value": "b"}},
        "MessageStructure": None,
        "Subject": None,
    }
    subscription = sns.subscribe(TopicArn=topic, Protocol="sms", Endpoint=number)["SubscriptionArn"]
    structured = json.dumps({"default": "d", "sms": "for phones"})
    sns.publish(TopicArn=topic, Message=structured, MessageStructure="json", Subject="s")
    _, of_topic = texts(stack, number, 2)
    expected = ("for phones", "s", "json", topic, subscription)
    members = ("Message", "Subject", "MessageStructure", "TopicArn", "SubscriptionArn")
    assert tuple(of_topic[member] for member in members) == expected


def _has_message(stack: Up, number: str, place: dict[str, str]) -> bool:
    return number in page(stack, TEXTS, **place)["sms_messages"]


@pytest.mark.spec("localstack.sms-messages")
def test_text_messages_of_accounts_and_regions_and_forgetting_them(stack: Up, sns: Any) -> None:
    numbers = [f"+1555{uuid.uuid4().int % 10**7:07}" for _ in range(3)]
    sns.publish(PhoneNumber=numbers[0], Message="a")
    stack.client("sns", **{**KEYS, "key": "111111111111"}).publish(PhoneNumber=numbers[1], Message="b")
    stack.client("sns", **{**KEYS, "region_name": "eu-west-1"}).publish(PhoneNumber=numbers[2], Message="c")
    where: list[dict[str, str]] = [{}, {"accountId": "111111111111"}, {"region": "eu-west-1"}]
    for number, place in zip(numbers, where, strict=True):
        wait_until(partial(_has_message, stack, number, place))
    assert page(stack, TEXTS, region="eu-west-1")["region"] == "eu-west-1"
    assert page(stack, TEXTS, phoneNumber=numbers[1])["sms_messages"] == {numbers[1]: []}
    sns.publish(PhoneNumber=numbers[2], Message="d")
    texts(stack, numbers[2], 1)
    forget(stack, TEXTS, phoneNumber=numbers[0])
    assert page(stack, TEXTS, phoneNumber=numbers[0])["sms_messages"] == {numbers[0]: []}
    assert texts(stack, numbers[2], 1)[0]["Message"] == "d"
    forget(stack, TEXTS)
    assert page(stack, TEXTS)["sms_messages"] == {}
    assert numbers[2] in page(stack, TEXTS, region="eu-west-1")["sms_messages"]


@pytest.mark.spec("localstack.platform-messages")
def test_push_messages(stack: Up, sns: Any, topic: str, new_name: Any) -> None:
    application = sns.create_platform_application(
        Name=new_name(), Platform="GCM", Attributes={"PlatformCredential": "x"}
    )
    endpoint = sns.create_platform_endpoint(
        PlatformApplicationArn=application["PlatformApplicationArn"], Token=uuid.uuid4().hex
    )["EndpointArn"]
    published = sns.publish(TargetArn=endpoint, Message="hello", Subject="s")["MessageId"]

    def pushed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = page(stack, PUSHED, endpointArn=endpoint)["platform_endpoint_messages"][endpoint]
        return found

    wait_until(pushed)
    assert pushed() == [
        {
            "TargetArn": endpoint,
            "TopicArn": None,
            "MessageId": published,
            "Message": "hello",
            "MessageAttributes": {},
            "MessageStructure": None,
            "Subject": "s",
        }
    ]
    assert endpoint in page(stack, PUSHED)["platform_endpoint_messages"]
    sns.subscribe(TopicArn=topic, Protocol="application", Endpoint=endpoint)
    sns.publish(TopicArn=topic, Message="for all")
    wait_until(lambda: len(pushed()) == 2)
    assert (pushed()[1]["Message"], pushed()[1]["TopicArn"]) == ("for all", topic)
    forget(stack, PUSHED, endpointArn=endpoint)
    assert pushed() == []


@pytest.mark.spec("localstack.subscription-tokens")
def test_tokens_of_subscriptions(stack: Up, sns: Any, topic: str) -> None:
    endpoint = f"{uuid.uuid4().hex}@example.com"
    arn = sns.subscribe(TopicArn=topic, Protocol="email", Endpoint=endpoint, ReturnSubscriptionArn=True)[
        "SubscriptionArn"
    ]
    found = page(stack, f"/_aws/sns/subscription-tokens/{arn}")
    assert found["subscription_arn"] == arn
    confirmed = sns.confirm_subscription(TopicArn=topic, Token=found["subscription_token"])
    assert confirmed["SubscriptionArn"] == arn
    again = page(stack, f"/_aws/sns/subscription-tokens/{quote(arn)}")
    assert sns.confirm_subscription(TopicArn=topic, Token=again["subscription_token"])["SubscriptionArn"] == arn
    absent = f"{topic}:6ab180b4-f6c7-4ab5-8747-757d1d466e12"
    for bad, status, error in ((absent, 404, "is not found"), ("x", 400, "is invalid")):
        answer = stack.get(f"/_aws/sns/subscription-tokens/{bad}")
        expected = {"error": f"The provided SubscriptionARN {error}", "subscription_arn": bad}
        assert (answer[0], json.loads(answer[1])) == (status, expected)


LONG = "1" * 5_000
LONG_ARN = f"arn:aws:sns:{REGION}:{LONG}:t:s"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *[(method, f"{TEXTS}?accountId={LONG}", 400) for method in ("GET", "DELETE")],
        *[(method, f"{PUSHED}?endpointArn={LONG_ARN}", 400) for method in ("GET", "DELETE")],
        ("GET", f"{PUSHED}?accountId={LONG}", 400),
        ("GET", f"{TEXTS}?phoneNumber={LONG}", 200),
        ("GET", f"{TEXTS}?region={LONG}", 200),
        ("GET", f"/_aws/sns/subscription-tokens/{LONG_ARN}", 400),
        ("GET", f"/_aws/sns/subscription-tokens/arn:aws:sns:{REGION}:{ACCOUNT}:{LONG}", 400),
        ("GET", f"/_aws/sqs/messages/{REGION}/{LONG}/q", 400),
        ("GET", f"/_aws/sqs/messages/{LONG}/{ACCOUNT}/q", 400),
        ("GET", f"/_aws/sqs/messages/{REGION}/{ACCOUNT}/{LONG}", 400),
        ("GET", f"/_aws/sqs/messages?QueueUrl=http://x/{LONG}/q", 404),
    ],
    ids=lambda value: str(value)[:60],
)
def test_very_long_names_are_refused_in_one_line(stack: Up, method: str, path: str, status: int) -> None:
    found, body = fetch(f"{stack.url}{path}", method=method)
    assert (found, b"Error" in body or b'"error"' in body) == (status, status >= 400), body
    assert not stack.events("page.crashed")


@pytest.mark.spec("localstack.opt-outs")
def test_opting_out(stack: Up, sns: Any, number: str) -> None:
    def opt_out(body: bytes) -> int:
        return fetch(f"{stack.url}/_aws/sns/phone-opt-outs", body, {"content-type": "application/json"})[0]

    assert opt_out(json.dumps({"phoneNumber": number, "accountId": ACCOUNT}).encode()) == 200
    assert sns.check_if_phone_number_is_opted_out(phoneNumber=number)["isOptedOut"] is True
    empty_names = (b'{"phoneNumber":""}', b'{"phoneNumber":"+15550100","accountId":""}')
    for body in (b"", b"[]", b"{}", b'{"phoneNumber":7}', b"x" * 10_000, *empty_names):
        assert opt_out(body) == 400


@pytest.mark.spec("localstack.certificate")
def test_the_certificate_is_where_localstack_has_it(stack: Up, sns: Any, topic: str, new_name: Any) -> None:
    sqs = stack.client("sqs", **KEYS)
    queue = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn_of(sqs, queue))
    sns.publish(TopicArn=topic, Message="m")
    url = json.loads(receive_one(sqs, queue)["Body"])["SigningCertURL"]
    name = urlsplit(url).path.rpartition("/")[2]
    ours, theirs = stack.get(f"/{name}"), stack.get(f"/_aws/sns/{name}")
    assert ours == theirs and ours[1].startswith(b"-----BEGIN CERTIFICATE-----")
    assert stack.get("/_aws/sns/SimpleNotificationService-0.pem")[0] == 404


def test_they_are_localstack_s_alone(tmp_path: Any) -> None:
    with running(tmp_path / "data", "--auth=off") as plain:
        assert plain.get(TEXTS)[0] == 404
