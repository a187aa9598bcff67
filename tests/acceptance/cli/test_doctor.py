"""`cns doctor`: each mistake gives its line and its mend."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.harness import commands
from lab.harness.ports import free_port
from lab.harness.processes import plain_environment
from lab.harness.running import Up, cns, running
from lab.harness.waiting import wait_until
from tests.acceptance.cli.command_runs import run

Findings = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Its own service: a doctor looks at everything."""
    with running(tmp_path_factory.mktemp("doctor") / "data", "--test-clock") as started:
        yield started


def examine(service: Up, *words: str | Path, **more: str) -> tuple[int, Findings]:
    done = run(service, "doctor", "--json", "--data", service.data, *words, **more)
    assert done.stdout, done.stderr
    found: Findings = {}
    for one in json.loads(done.stdout)["findings"]:
        found.setdefault(one["check"], []).append(one)
    return done.returncode, found


def levels(found: Findings, check: str) -> set[str]:
    return {one["level"] for one in found[check]}


def test_a_topic_that_may_not_send_and_its_mend(service: Up) -> None:
    sqs, sns = service.client("sqs"), service.client("sns")
    code, found = examine(service)
    assert (code, levels(found, "policies"), levels(found, "keys")) == (0, {"ok"}, {"ok"})
    assert "embedded form, version 0." in found["endpoint"][0]["text"]
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name="news")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    code, found = examine(service)
    refused = found["policies"][0]
    assert (code, refused["level"]) == (1, "problem")
    assert topic in refused["text"] and arn in refused["text"]
    name, _, policy = refused["mend"].partition(" 'Policy=")
    assert name == "cns queue set orders"
    mended = run(service, "queue", "set", "orders", f"Policy={policy.removesuffix(chr(39))}")
    assert mended.returncode == 0, mended.stderr
    assert levels(examine(service)[1], "policies") == {"ok"}


def test_unconfirmed_dead_letters_and_returned(service: Up) -> None:
    sqs, sns = service.client("sqs"), service.client("sns")
    sns.subscribe(TopicArn=sns.create_topic(Name="mails")["TopicArn"], Protocol="email", Endpoint="a@example.com")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
    work = sqs.create_queue(QueueName="work", Attributes={"RedrivePolicy": redrive})["QueueUrl"]
    sqs.send_message(QueueUrl=work, MessageBody="slow")
    assert sqs.receive_message(QueueUrl=work)["Messages"]
    assert levels(examine(service)[1], "visibility") == {"ok"}
    sqs.delete_queue(QueueUrl=dead)
    service.advance(31)
    _, found = examine(service)
    assert "a@example.com has not confirmed" in found["subscriptions"][0]["text"]
    assert found["dead-letter queues"][0]["mend"] == "cns queue create dead"
    assert found["visibility"][0]["mend"].endswith("cns queue set work VisibilityTimeout=60")


def test_an_endpoint_that_is_down_what_was_dropped_and_what_may_be(tmp_path: Path) -> None:
    gives_up = json.dumps({"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 0}})
    url = f"http://127.0.0.1:{free_port()}/"
    environment = {"CNS_BREAKER_FAILURES": "1", "CNS_SMS_SANDBOX": "on"}
    with running(tmp_path / "data", "--test-clock", environment=environment) as service:
        sns = service.client("sns")
        assert {levels(examine(service)[1], check).pop() for check in ("endpoints", "drops")} == {"ok"}
        topic = sns.create_topic(Name="news")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=url, Attributes={"DeliveryPolicy": gives_up})
        muted = sns.publish(PhoneNumber="+15551230002", Message="m")["MessageId"]
        found: Findings = {}

        def seen() -> bool:
            found.clear()
            found.update(examine(service)[1])
            events = "".join(path.read_text() for path in (service.data / "events").rglob("*.jsonl*"))
            return levels(found, "endpoints") | levels(found, "drops") == {"warning"} and muted in events

        wait_until(seen, lambda: f"{found}")
        assert f"the circuit breaker of {url} is open" in found["endpoints"][0]["text"]
        assert "Connection refused: " in found["endpoints"][0]["text"]
        (drop,) = found["drops"]  # that of the confirmation: a muted number is of no concern
        assert f"1 dropped within the last hour, of {topic}: all attempts are spent" in drop["text"]
        assert "cns explain " in drop["mend"]
        assert levels(found, "sandbox") == {"warning"}
        assert "1 subscription has no dead-letter queue" in found["dead-letter queues"][0]["text"]
        service.advance(3_700)
        assert levels(examine(service)[1], "drops") == {"ok"}


def test_keys_and_endpoint(service: Up) -> None:
    _, found = examine(service, AWS_SECRET_ACCESS_KEY="wrong")
    assert "SignatureDoesNotMatch" in found["keys"][0]["text"]
    _, found = examine(service, AWS_ACCESS_KEY_ID="AKIAUNKNOWNUNKNOWN00")
    assert "cns account create" in found["keys"][0]["mend"]
    _, found = examine(service, AWS_ACCESS_KEY_ID="", AWS_ENDPOINT_URL="", AWS_REGION="", AWS_DEFAULT_REGION="")
    assert levels(found, "keys") == {"warning"}
    assert f"export AWS_ENDPOINT_URL={service.url}" in [one["mend"] for one in found["client"]]
    code, found = examine(service, "--url", "http://127.0.0.1:1")
    assert (code, levels(found, "endpoint")) == (1, {"problem"})
    other = {"CNS_STORE": "cassandra", "CNS_CASSANDRA": "127.0.0.1:1", "CNS_PORT": service.url.rpartition(":")[2]}
    _, found = examine(service, **other)
    assert "CNS_STORE is cassandra here" in found["settings"][0]["text"]


def test_without_a_running_service(tmp_path: Path) -> None:
    with running(tmp_path / "data") as stopped:
        pass
    (tmp_path / "data" / "master.key").chmod(0o644)
    code, found = examine(stopped)
    assert (code, levels(found, "endpoint"), levels(found, "policies")) == (1, {"problem"}, {"ok"})
    assert found["master key"][0]["mend"] == f"chmod 600 {tmp_path / 'data' / 'master.key'}"
    assert levels(found, "backup") == {"warning"}


def test_a_port_that_is_taken_and_no_store(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = cns("doctor", "--data", tmp_path / "none", "--url", f"http://127.0.0.1:{free_port()}", check=False)
        assert done.returncode == 1
        assert "there is no store in" in done.stdout
        assert done.stdout.splitlines()[-1].startswith(str(len(done.stdout.splitlines()) - 1))
        taken = _with_port(port, tmp_path)
    assert "Address already in use → `cns up --port`" in taken
    assert not (tmp_path / "none").exists()


def _with_port(port: int, tmp_path: Path) -> str:
    environment = {**plain_environment(), "CNS_PORT": str(port), "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    return commands.run("doctor", "--data", tmp_path / "none", environment=environment).stdout


def test_wrong_settings_are_one_line(service: Up) -> None:
    done: Any = run(service, "doctor", "--profile", "none")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
