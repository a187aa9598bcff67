"""`cns up --compat localstack`, as a user of LocalStack calls it: nothing but the address is changed."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from cns_pytest.http import fetch
from lab.harness.running import Up, cns, running
from lab.harness.service import Service, error_of
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.localstack.conftest import ACCOUNT, KEYS
from tests.acceptance.topics import Topic, arn_of, receive_one

LOCAL = "localhost.localstack.cloud"


def at(stack: Service, url: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """The service's answer to `url`: the request goes to the service, with the host of the URL in its header."""
    parts = urlsplit(url)
    target = f"{stack.url}{parts.path}" + (f"?{parts.query}" if parts.query else "")
    return fetch(target, body, {"host": parts.netloc, **headers})


# -- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("localstack.port", "localstack.accounts")
def test_it_is_where_localstack_is(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--compat", "localstack", own_port=4566) as service:
        assert "ANY credentials pass" in service.said()
        assert "Ready.\n" in service.said(), "Testcontainers waits for this line"
        sqs = service.client("sqs", **KEYS)
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        assert url == f"http://sqs.us-east-1.{LOCAL}:4566/{ACCOUNT}/q"
        assert service.client("sts", **KEYS).get_caller_identity()["Account"] == ACCOUNT
        other = service.client("sqs", **{**KEYS, "key": "111111111111"})
        assert other.create_queue(QueueName="q")["QueueUrl"].endswith("/111111111111/q")


def test_it_needs_auth_off(tmp_path: Path) -> None:
    done = cns("up", "--compat", "localstack", "--auth", "on", "--data", tmp_path / "data", check=False)
    assert done.returncode != 0
    assert "leave CNS_AUTH=on out" in done.stderr


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("localstack.health", "localstack.health-put", "localstack.health-post")
def test_health(stack: Up) -> None:
    page = f"{stack.url}/_localstack/health"
    assert json.loads(fetch(page)[1]) == {
        "services": {"sns": "running", "sqs": "running", "sts": "running"},
        "edition": "community",
        "version": "4.0.0",
    }
    assert fetch(page, method="HEAD") == (200, b"")
    put = fetch(page, b'{"features:initScripts":"initialized"}', method="PUT")
    assert (put[0], json.loads(put[1])) == (200, {"status": "OK"})
    assert json.loads(fetch(page)[1])["features"] == {"initScripts": "initialized"}
    assert fetch(page, b'{"action":"restart"}') == (200, b"ok")
    assert fetch(page, b"[]")[0] == 400
    assert stack.events("localstack.action_ignored", action="restart")
    assert fetch(page)[0] == 200, "and goes on"


@pytest.mark.spec("localstack.pages")
def test_other_pages(stack: Up) -> None:
    def page(path: str) -> Any:
        status, body = stack.get(path)
        assert status == 200, body
        return json.loads(body)

    assert page("/_localstack/info").keys() >= {"version", "edition", "session_id", "uptime", "is_license_activated"}
    assert page("/_localstack/init") == {
        "completed": {"BOOT": True, "START": True, "READY": True, "SHUTDOWN": False},
        "scripts": [],
    }
    assert page("/_localstack/init/ready") == {"completed": True, "scripts": []}
    assert {one["name"] for one in page("/_localstack/plugins")["localstack.aws.provider"]} == {"sns", "sqs", "sts"}
    for absent in ("/_localstack/init/later", "/_localstack/diagnose", "/_localstack/config", "/_localstack/usage"):
        assert stack.get(absent)[0] == 404


@pytest.mark.extended
def test_without_it_there_are_no_such_pages(open_service: Service) -> None:
    for path in ("/_localstack/health", "/_localstack/info", "/_aws/sqs/messages"):
        assert open_service.get(path)[0] == 404


def test_without_it_an_unsigned_call_is_where_its_address_is(open_service: Service, new_name: Any) -> None:
    name = new_name()
    sqs = open_service.client("sqs", **{**KEYS, "region_name": "eu-west-1"})
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == f"{open_service.url}/{ACCOUNT}/{name}"
    send = urlencode({"Action": "SendMessage", "MessageBody": "x"})
    listing = urlencode({"Action": "ListQueues", "QueueNamePrefix": name})
    for url in (
        f"{open_service.url}/queue/eu-west-1/{ACCOUNT}/{name}?{send}",
        f"http://sqs.eu-west-1.{LOCAL}/{ACCOUNT}/{name}?{send}",
        f"http://sqs.eu-west-1.{LOCAL}/?{listing}",
    ):
        status, body = at(open_service, url)
        assert (status, b"<MessageId>" in body or name.encode() in body) == (200, True), body
    assert at(open_service, f"http://{urlsplit(open_service.url).netloc}/{ACCOUNT}/{name}?{send}")[0] == 400


# -- queue URLs -------------------------------------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.spec("localstack.urls")
@pytest.mark.parametrize(
    ("strategy", "here", "there"),
    [
        ("standard", "http://sqs.us-east-1.{local}/{q}", "http://sqs.eu-west-1.{local}/{q}"),
        ("path", "http://{host}/queue/us-east-1/{q}", "http://{host}/queue/eu-west-1/{q}"),
        ("anything else", "http://{host}/{q}", "http://{host}/{q}"),
    ],
)
def test_endpoint_strategies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, here: str, there: str
) -> None:
    monkeypatch.setenv("SQS_ENDPOINT_STRATEGY", strategy)
    with running(tmp_path / "data", "--compat", "localstack") as stack:
        host = urlsplit(stack.url).netloc
        names = {"local": f"{LOCAL}:{host.partition(':')[2]}", "host": host, "q": f"{ACCOUNT}/q"}
        for region, form in (("us-east-1", here), ("eu-west-1", there)):
            url = form.format(**names)
            sqs = stack.client("sqs", **{**KEYS, "region_name": region})
            assert sqs.create_queue(QueueName="q")["QueueUrl"] == url
            assert sqs.get_queue_url(QueueName="q")["QueueUrl"] == url
            assert sqs.list_queues()["QueueUrls"] == [url]
            _use(stack, url, region)


def _use(stack: Up, url: str, region: str) -> None:
    """By its address, and at its address: whatever the client makes of it, it is the same queue."""
    options = {**KEYS, "region_name": region}
    by_address = stack.client("sqs", **options)
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    at_address = stack.client("sqs", **options, url=origin, proxies={"http": stack.url})
    arn = f"arn:aws:sqs:{region}:{ACCOUNT}:q"
    assert at_address.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"] == arn
    for sender, receiver in ((by_address, at_address), (at_address, by_address)):
        sender.send_message(QueueUrl=url, MessageBody=region)
        message = receive_one(receiver, url)
        assert message["Body"] == region
        receiver.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.spec("localstack.addresses")
@pytest.mark.parametrize(
    "form",
    [
        "{name}",
        "http://{host}/{account}/{name}",
        "http://elsewhere:1234/{account}/{name}",
        "http://{host}/queue/eu-west-1/{account}/{name}",
        "http://sqs.eu-west-1.{local}:4566/{account}/{name}",
        "http://eu-west-1.queue.{local}:4566/{account}/{name}",
        "https://sqs.eu-west-1.amazonaws.com/{account}/{name}",
    ],
)
def test_every_form_is_understood(stack: Up, new_name: Any, form: str) -> None:
    name = new_name()
    sqs = stack.client("sqs", **{**KEYS, "region_name": "eu-west-1"})
    sqs.create_queue(QueueName=name)
    url = form.format(name=name, account=ACCOUNT, host=urlsplit(stack.url).netloc, local=LOCAL)
    assert sqs.send_message(QueueUrl=url, MessageBody="x")
    assert receive_one(sqs, url)["Body"] == "x"
    if "eu-west-1" in url:  # the region of the address counts, whatever the signature says
        assert stack.client("sqs", **KEYS).send_message(QueueUrl=url, MessageBody="x")
        assert at(stack, f"{url}?Action=SendMessage&MessageBody=x")[0] == 200
        body = urlencode({"Action": "SendMessage", "MessageBody": "x"}).encode()
        assert at(stack, url, body)[0] == 200
        json_body = json.dumps({"QueueUrl": url, "MessageBody": "x"}).encode()
        target = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.SendMessage"}
        assert at(stack, url, json_body, **target)[0] == 200, "as the PHP SDK does"


@pytest.mark.extended
def test_the_aws_cli(stack: Up, new_name: Any) -> None:
    cli = replace(stack, environment={"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"})
    url = cli.aws("sqs", "create-queue", "--queue-name", new_name())["QueueUrl"]
    assert urlsplit(url).hostname == f"sqs.eu-central-1.{LOCAL}"
    cli.aws("sqs", "send-message", "--queue-url", url, "--message-body", "hello")
    assert cli.aws("sqs", "receive-message", "--queue-url", url)["Messages"][0]["Body"] == "hello"


# -- limits and waits -------------------------------------------------------------------------------------------------


def overriding(stack: Up, **overrides: str) -> Any:
    """A client whose receives have LocalStack's headers."""
    client = stack.client("sqs", **KEYS)

    def add(request: Any, **_: Any) -> None:
        for name, value in overrides.items():
            request.headers.add_header(f"x-localstack-sqs-override-{name.replace('_', '-')}", value)

    client.meta.events.register("before-sign.sqs.ReceiveMessage", add)
    return client


@pytest.mark.spec("localstack.overrides")
def test_more_messages_than_ten(stack: Up, sqs: Any, queue: str) -> None:
    for _ in range(3):
        sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": "x"} for n in range(10)])
    assert error_of(sqs.receive_message, QueueUrl=queue, MaxNumberOfMessages=11) == ("InvalidParameterValue", 400)
    many = overriding(stack, message_count="25").receive_message(QueueUrl=queue)
    assert len(many["Messages"]) == 25
    too_many = overriding(stack, message_count="1001")
    assert error_of(too_many.receive_message, QueueUrl=queue) == ("InvalidParameterValue", 400)


@pytest.mark.spec("localstack.overrides")
def test_a_longer_wait_than_twenty_seconds(stack: Up, sqs: Any, queue: str) -> None:
    assert error_of(sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=21) == ("InvalidParameterValue", 400)
    bodies: list[str] = []
    patient = overriding(stack, wait_time_seconds="900")

    def poll() -> None:
        bodies.extend(message["Body"] for message in patient.receive_message(QueueUrl=queue).get("Messages", []))

    before = stack.metric("cns_api_calls_total", operation="ReceiveMessage")
    polling = threading.Thread(target=poll, daemon=True)
    polling.start()
    wait_until(lambda: stack.metric("cns_api_calls_total", operation="ReceiveMessage") > before)
    stack.advance(600)
    sqs.send_message(QueueUrl=queue, MessageBody="at last")
    polling.join(PATIENCE_S)
    assert bodies == ["at last"]


@pytest.mark.spec("localstack.cool-offs")
def test_no_cool_offs(sqs: Any, new_name: Any) -> None:
    name = new_name()
    for body in ("first", "second"):
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.purge_queue(QueueUrl=url)
        sqs.purge_queue(QueueUrl=url)
        sqs.send_message(QueueUrl=url, MessageBody=body)
        assert receive_one(sqs, url)["Body"] == body
        sqs.delete_queue(QueueUrl=url)


@pytest.mark.spec("localstack.no-queue-policy")
def test_a_topic_needs_no_queue_policy(stack: Up, sqs: Any, queue: str, new_name: Any) -> None:
    sns = stack.client("sns", **KEYS)
    topic = Topic(sns, sns.create_topic(Name=new_name())["TopicArn"])
    assert topic.arn.startswith(f"arn:aws:sns:us-east-1:{ACCOUNT}:")
    topic.subscribe("sqs", arn_of(sqs, queue))
    topic.publish("let in")
    assert json.loads(receive_one(sqs, queue)["Body"])["Message"] == "let in"
