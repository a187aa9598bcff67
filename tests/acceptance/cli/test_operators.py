"""The operator's view: empty lists, the log at debug, the test clock by curl, the texts of mails."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cns_pytest.http import fetch
from lab.harness import commands
from lab.harness.parts import need
from lab.harness.running import Up, running
from lab.harness.waiting import PATIENCE_S
from tests.acceptance.sns.test_outbox import Outbox, follow
from tests.acceptance.topics import Topic

SETTINGS = {
    "CNS_LOG_LEVEL": "debug",
    "CNS_MAIL_SENDER_NAME": "Shop, news",
    "CNS_MAIL_FOOTER": "Ask https://shop.example.com/help",
}


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        with running(tmp_path_factory.mktemp("up") / "data", "--test-clock") as service:
            yield service


def test_empty_lists_say_so(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        arn = service.client("sns").create_topic(Name="t")["TopicArn"]
        said = {words: service.cns(*words.split()) for words in ("outbox list", "quarantine list", f"logs {arn}")}
        said["logs"] = service.cns("logs", arn, "--since", "1h")
        said["match"] = service.cns("outbox", "list", "--protocol", "sms")
    assert all(done.stdout == "" for done in said.values())
    assert said["outbox list"].stderr == "cns: no messages in the outbox\n"
    assert said["quarantine list"].stderr == "cns: no jobs in quarantine\n"
    assert said["match"].stderr == "cns: no messages that match in the outbox\n"
    assert said[f"logs {arn}"].stderr.startswith("cns: nothing is logged of sns/")
    assert "cns topic set TOPIC HTTPFailureFeedbackRoleArn=" in said[f"logs {arn}"].stderr
    assert said["logs"].stderr.endswith(" since then\n")


def test_each_call_is_a_line_at_debug(talkative: Up) -> None:
    sqs = talkative.client("sqs")
    sqs.create_queue(QueueName="told")
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName="absent")
    (created,) = talkative.events("api_call.answered", operation="CreateQueue")
    (missed,) = talkative.events("api_call.answered", operation="GetQueueUrl")
    account = talkative.client("sts").get_caller_identity()["Account"]
    assert (created["account"], created["status"], created["error"]) == (account, 200, None)
    assert (missed["account"], missed["status"], missed["error"]) == (account, 400, "QueueDoesNotExist")
    assert missed["ms"] > 0 and len(missed["request_id"]) == 36 and missed["level"] == "debug"


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", "application/json", ""])
def test_the_test_clock_takes_any_content_type(talkative: Up, content_type: str) -> None:
    header = f"Content-Type: {content_type}" if content_type else "Content-Type:"  # curl then sends no such header
    need("curl")
    words = ["curl", "-s", "-H", header, "-d", '{"advance_s": 60}', f"{talkative.url}/_cns/clock"]
    offsets = [json.loads(subprocess.check_output(words, timeout=PATIENCE_S))["offset_ms"] for _ in range(2)]
    assert offsets[1] - offsets[0] == 60_000


@pytest.mark.parametrize("body", [b"", b"{}", b"advance_s=60", b'{"advance_s": -1}', b'{"advance_s": 1e12}', b"\xff"])
def test_the_test_clock_refuses_what_is_no_time(talkative: Up, body: bytes) -> None:
    status, answer = fetch(f"{talkative.url}/_cns/clock", body)
    assert (status, answer.startswith(b"the body must be like")) == (422, True)


@pytest.mark.spec("mail.confirmation-from", "mail.footer")
def test_mails_have_the_operators_words(talkative: Up) -> None:
    sns = talkative.client("sns")
    topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
    topic.request_subscription("email", "me@example.com")
    mailbox = Outbox(talkative, "me@example.com")
    asked = mailbox.next()
    assert "from: Shop, news\n" in asked
    assert b"Subscription confirmed!" in follow(asked)
    topic.publish("hello")
    mail = mailbox.next()
    assert "from: Shop, news\n" in mail
    assert mail.endswith("\n\nAsk https://shop.example.com/help\n")


@pytest.mark.parametrize("life", ["0s", "36501d", "999999999d"])
def test_a_life_with_which_a_token_is_never_valid(tmp_path: Path, life: str) -> None:
    refused = commands.run("operator", "token", "--life", life, "--data", tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
