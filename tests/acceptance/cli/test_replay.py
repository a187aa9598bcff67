"""`cns replay` on a running service: archived messages go to subscribers again, whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.harness.service import Service
from tests.acceptance.sns.test_fifo import drained
from tests.acceptance.sns.test_replay import WINDOW_S, envelopes, fifo, standard, subscribed  # noqa: F401  # fixtures
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, signature_is_good

EVEN = '{"even":["True"]}'
NOWHERE = "arn:aws:sns:us-east-1:000000000000:nowhere"


def publish_all_kinds(topic: Topic, *, ordered: bool) -> None:
    """Six messages: with a subject, with a text by protocol, with attributes of each type, in two groups."""
    for number in range(6):
        attributes = {
            "even": {"DataType": "String", "StringValue": str(number % 2 == 0)},
            "number": {"DataType": "Number", "StringValue": f"{number}.50"},
            "bytes": {"DataType": "Binary", "BinaryValue": bytes([0, 255, number])},
        }
        message = {"Message": f"{number} ✓ \t 😀"}
        if number == 3:
            texts = {"default": f"{number} ✓", "sqs": f"{number} for queues 😀"}
            message = {"Message": json.dumps(texts), "MessageStructure": "json"}
        topic.sns.publish(
            TopicArn=topic.arn,
            MessageAttributes=attributes,
            **message,
            **({"Subject": f"subject {number}"} if number % 3 == 0 else {}),
            **({"MessageGroupId": f"g{number % 2}"} if ordered else {}),
        )


def replay(service: Service, topic: Topic, *words: str) -> str:
    return service.cns("replay", "--topic", topic.arn, *words).stdout.strip()


def repeated(first: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "Replayed": "true"} for each in first]


def by_group(messages: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The bodies of messages by group, in the order in which they came."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in messages:
        groups.setdefault(each["Attributes"]["MessageGroupId"], []).append(json.loads(each["Body"]))
    return groups


def test_a_topic_sends_to_all_its_subscribers_again(service: Service, sqs: Any, fifo: Topic) -> None:  # noqa: F811  # the fixture
    service.advance(WINDOW_S)  # the command's clock is behind the messages
    queue, subscription = subscribed(sqs, fifo)
    evens, _ = subscribed(sqs, fifo, FilterPolicy=EVEN)
    publish_all_kinds(fifo, ordered=True)
    first, first_even = by_group(drained(sqs, queue, 6)), by_group(drained(sqs, evens, 3))
    service.advance(WINDOW_S)
    assert replay(service, fifo, "--dry-run") == "6 messages of 6 would be sent"
    assert replay(service, fifo, "--to", fifo.arn) == f"6 messages sent of 6, to {fifo.arn}"
    assert by_group(drained(sqs, queue, 6)) == {group: repeated(bodies) for group, bodies in first.items()}
    assert by_group(drained(sqs, evens, 3)) == {group: repeated(bodies) for group, bodies in first_even.items()}
    said = replay(service, fifo, "--to", subscription, "--filter", EVEN, "--since=-7d")
    assert said == f"3 messages sent of 6, to {subscription}"
    assert by_group(drained(sqs, queue, 3)) == {"g0": repeated(first["g0"])}
    assert replay(service, fifo, "--dry-run") == "6 messages of 6 would be sent", "nothing was archived twice"
    counted = replay(service, fifo, "--dry-run", "--to", subscription)
    assert counted == "6 messages of 6 would be sent", "the line of the replay, with --dry-run behind it"
    assert receive_all(sqs, evens) == []
    acts = [json.loads(line) for line in service.cns("activity", "--action", "Replay", "--json").stdout.splitlines()]
    assert [one["detail"] for one in acts if one["target"] == fifo.arn] == [
        f"to {fifo.arn}, 6 messages",
        f"to {subscription}, 3 messages",
    ]


def test_a_standard_topic_sends_whole_messages_again(service: Service, sqs: Any, standard: Topic) -> None:  # noqa: F811  # the fixture
    queue = queue_for(sqs, standard.arn)
    subscription = standard.subscribe("sqs", arn_of(sqs, queue))
    publish_all_kinds(standard, ordered=False)
    first = by_id(envelopes(sqs, queue, 6))
    replay(service, standard, "--to", subscription, "--rate", "1000")
    again = by_id(envelopes(sqs, queue, 6))
    assert [without_signature(each) for each in again] == [without_signature(each) for each in repeated(first)]
    assert all(signature_is_good(each, ca_file=service.ca_file) for each in again)


def by_id(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(bodies, key=lambda each: str(each["MessageId"]))


def without_signature(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "Signature"}


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("--to", NOWHERE), 74, "has no archive: set its ArchivePolicy, or read a table with --from-table"),
        (("--to", NOWHERE, "--rate", "inf"), 2, "--rate inf is not a number: 0 is no limit"),
        ((), 2, "name a target with --to, or use --dry-run to count"),
        (
            ("--to", "somewhere"),
            2,
            "--to somewhere is not the ARN of a subscription or a topic: subscribe a queue",
        ),
        (("--dry-run", "--since", "monday"), 2, "--since 'monday' is not a time like 2026-11-22"),
        (("--dry-run", "--from-table", "/nowhere"), 74, "there is no archive table in /nowhere"),
    ],
)
def test_what_cannot_be_done_is_one_line(service: Service, words: tuple[str, ...], code: int, complaint: str) -> None:
    done = service.cns("replay", "--topic", NOWHERE, *words, check=False)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in line


def test_a_filter_that_is_none(service: Service, standard: Topic) -> None:  # noqa: F811  # the fixture
    done = service.cns("replay", "--topic", standard.arn, "--dry-run", "--filter", "{", check=False)
    (line,) = done.stderr.splitlines()
    assert "FilterPolicy" in line
