"""`cns explain`: a message's life as a person asks for it, while the service runs."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from lab.harness.clustered import Clustered
from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.cli.command_runs import run
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_one

WAITS_LONG = {"minDelayTarget": 900, "maxDelayTarget": 900, "numRetries": 3}
GIVES_UP = {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 1, "numNoDelayRetries": 1}


def policy(retries: dict[str, int]) -> dict[str, str]:
    return {"DeliveryPolicy": json.dumps({"healthyRetryPolicy": retries})}


def cns_explain(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    """With the events of all processes, wherever they write them."""
    processes = service.cluster.directory.glob("*/") if isinstance(service, Clustered) else []
    options = [word for process in processes for word in ("--events", str(process / "events"))]
    return service.cns("explain", *words, *options, check=False)


def explained(service: Service, message_id: str, *words: str) -> dict[str, Any]:
    """As JSON, once every subscription has a status that lasts."""
    explanation: dict[str, Any] = {}

    def settled() -> bool:
        explanation.clear()
        explanation.update(json.loads(cns_explain(service, message_id, "--json", *words).stdout))
        return bool(explanation["known"] and not explanation["totals"].keys() & {"under way", "unknown"})

    wait_until(settled, lambda: json.dumps(explanation, indent=1))
    return explanation


def histories(explanation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {history["subscription"]: history for history in explanation["lives"]}


def test_one_message_and_what_became_of_it_for_each_subscription(
    service: Service, sqs: Any, topic: Topic, receiver: str
) -> None:
    taking, failing, dying, lost = (Endpoint(receiver) for _ in range(4))
    for endpoint in (failing, dying, lost):
        endpoint.behave(status=500)
    dead = queue_for(sqs, topic.arn)
    delivered = topic.subscribe("http", taking.url)
    waiting = topic.subscribe("http", failing.url, **policy(WAITS_LONG))
    dead_lettered = topic.subscribe("http", dying.url, **policy(GIVES_UP), **topic.dead_letters_to(arn_of(sqs, dead)))
    dropped = topic.subscribe("http", lost.url, **policy(GIVES_UP))
    filtered = topic.subscribe("sqs", arn_of(sqs, queue_for(sqs)), FilterPolicy='{"kind":["paid"]}')
    published = topic.publish("m", MessageAttributes={"kind": {"DataType": "String", "StringValue": "new"}})
    receive_one(sqs, dead)

    explanation = explained(service, published)
    assert {arn: history["fate"] for arn, history in histories(explanation).items()} == {
        delivered: "delivered",
        waiting: "waiting",
        dead_lettered: "dead-lettered",
        dropped: "dropped",
        filtered: "filtered",
    }
    assert (explanation["topic"], explanation["accepted"]["message_id"]) == (topic.arn, published)
    (outcome,) = histories(explanation)[delivered]["ends"]
    assert outcome["since_publish_ms"] >= 0
    (attempt,) = histories(explanation)[waiting]["attempts"]
    assert (attempt["status"], attempt["cause"], attempt["attempt"]) == (500, "status", 1)
    (location,) = histories(explanation)[waiting]["places"]
    due_in_s = (location["due_ms"] - attempt["at_ms"]) / 1000
    assert location["queue"] == "redelivery" and location["failures"] == 1 and 899 <= due_in_s <= 1_000, location
    assert histories(explanation)[dead_lettered]["ends"][0]["cause"] == "spent:status"
    assert histories(explanation)[dead_lettered]["ends"][0]["queue"] == arn_of(sqs, dead)
    assert histories(explanation)[dropped]["ends"][0]["cause"] == "spent:status"
    assert histories(explanation)[filtered]["reason"] == 'key `kind`: value "new" matches none of ["paid"]'

    text = cns_explain(service, published).stdout
    assert "5 subscriptions: 1 delivered, 1 dead-lettered, 1 dropped, 1 waiting, 1 filtered" in text
    assert "attempt 1 (first): failed (status 500) after" in text and "attempt 2 is due at" in text
    words = "all attempts are spent: the endpoint answered with an error (spent:status)"
    assert f"to the dead-letter queue {arn_of(sqs, dead)}: {words}" in text
    (alone,) = explained(service, published, "--subscription", filtered)["lives"]
    assert alone["subscription"] == filtered


def test_a_service_explains_its_messages_to_those_who_may_see_them(
    service: Service, topic: Topic, endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.behave(refuse=True)
    arn = topic.subscribe("http", endpoint.url, **policy(GIVES_UP))
    published = topic.publish("m")
    here = histories(explained(service, published))
    elsewhere = {"CNS_DATA": str(tmp_path), "AWS_ENDPOINT_URL": ""}

    def asked(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run(service, "explain", published, "--url", service.url, *words, **elsewhere, **more)

    there = histories(json.loads(asked("--json").stdout))
    assert there[arn]["ends"] == here[arn]["ends"] and there[arn]["fate"] == "dropped"
    text = asked("--subscription", arn).stdout
    assert "why        all attempts are spent: the endpoint is down: no connection. Check that it runs" in text
    assert list(tmp_path.iterdir()) == []
    made = json.loads(service.cns("account", "create", "--json").stdout)
    keys = {"AWS_ACCESS_KEY_ID": made["keyId"], "AWS_SECRET_ACCESS_KEY": made["secret"]}
    stranger = asked(**keys)
    assert (stranger.returncode, stranger.stdout) == (1, "")
    assert stranger.stderr == f"cns: NoSuchMessage: Nothing is known of a message {published}.\n"
    assert asked("--since", "2h").returncode == 2
    (failed,) = service.events("delivery_attempt.failed", message_id=published, retry_in_s=None)
    (dropped,) = service.events("notification.dropped", message_id=published)
    assert {failed["subscription"], dropped["subscription"]} == {arn}
    wait_until(lambda: "messages were dropped" in f"{service.health()['reasons']}", lambda: f"{service.health()}")


def test_which_key_was_not_met_is_known_when_the_message_is_gone(service: Service, sqs: Any, topic: Topic) -> None:
    arn = topic.subscribe("sqs", arn_of(sqs, queue_for(sqs)), FilterPolicy='{"kind":["paid"],"size":[{"exists":true}]}')
    published = topic.publish("m", MessageAttributes={"kind": {"DataType": "String", "StringValue": "paid"}})
    explanation = explained(service, published)
    assert explanation["text_in"] == "" and explanation["accepted"]["jobs"] == 0
    assert histories(explanation)[arn]["fate"] == "filtered"
    assert (
        histories(explanation)[arn]["reason"]
        == "key `size` of its policy was not met; it asks now for one of [exists true]"
    )


def test_a_confirmation_and_a_text_message_are_explained_too(service: Service, sns: Any) -> None:
    number = f"+1555{uuid.uuid4().int % 10**7:07}"
    published = sns.publish(PhoneNumber=number, Message="only you")["MessageId"]
    (history,) = explained(service, published)["lives"]
    assert (history["subscription"], history["protocol"], history["fate"]) == ("", "sms", "delivered")


@pytest.mark.parametrize(
    "words",
    [[""], ["abc"], [b"\xff"], [str(uuid.UUID(int=1)), "--topic", "t"], [str(uuid.UUID(int=1)), "--events", "/none"]],
)
def test_words_that_name_nothing(service: Service, words: list[str]) -> None:
    done = cns_explain(service, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cns: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("since", ["yesterday", "2w", "h"])
def test_a_time_that_cannot_be_read(service: Service, since: str) -> None:
    done = cns_explain(service, str(uuid.uuid4()), "--since", since)
    assert done.returncode == 2
    assert done.stderr.startswith(f"cns: --since={since}: must be")


def test_why_a_queue_refused(service: Service, sqs: Any, topic: Topic) -> None:
    closed, missing = queue_for(sqs, f"{topic.arn}-other"), queue_for(sqs, topic.arn)
    for queue in (closed, missing):
        topic.subscribe("sqs", arn_of(sqs, queue))
    sqs.delete_queue(QueueUrl=missing)
    published = topic.publish("refused")
    explained(service, published)
    explanation = cns_explain(service, published).stdout
    assert f": AccessDenied: queue policy does not allow topic {topic.arn}\n" in explanation
    assert ": QueueDoesNotExist: The specified queue does not exist.\n" in explanation
