"""Dead letters over REST: what sends to a dead-letter queue, its depth, the causes, the redrive."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from cns.client import Client, Credentials
from cns.client.dead_letters import DeadLetterQueue
from cns_server.rest.deliveries.dead_letters import SCANNED
from lab.harness.processes import keys_in
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until
from tests.acceptance.rest.refusals import refusal_of
from tests.acceptance.topics import Topic, arn_of, queue_for


def find(rest: Client, arn: str) -> list[DeadLetterQueue]:
    """The entries of a dead-letter queue on all pages."""
    found, after = [], ""
    while True:
        page = rest.dead_letter_queues(after)
        found += [one for one in page.dead_letter_queues if one.arn == arn]
        if not page.next:
            return found
        after = page.next


def test_brackets_without_end_are_text_like_any_other(
    rest: Client, service: Service, new_name: Callable[[], str]
) -> None:
    name, deep = rest.create_queue(new_name()).name, '{"x":' + "[" * 100_000
    rest.put_message(name, deep)
    (letter,) = rest.dead_letters(name).messages
    assert (letter.body, letter.notification_id) == (deep, None)
    token = base64.urlsafe_b64encode(deep[:2_900].encode()).rstrip(b"=").decode()
    answer = httpx.get(f"{service.url}/api/v1/caller", headers={"authorization": f"Bearer {token}.AA"})
    assert (answer.status_code, answer.json()["code"]) == (401, "InvalidToken")


def test_of_a_queue(rest: Client, new_name: Callable[[], str]) -> None:
    dead = rest.create_queue(new_name())
    policy = f'{{"deadLetterTargetArn":"{dead.arn}","maxReceiveCount":"1"}}'
    source = rest.create_queue(new_name(), {"RedrivePolicy": policy})
    (empty,) = find(rest, dead.arn)
    assert (empty.name, empty.queues, empty.subscriptions) == (dead.name, [source.name], [])
    assert empty.depth is not None
    assert (empty.depth.visible, empty.depth.oldest_sent_at, empty.depth.oldest_age_seconds) == (0, None, None)
    rest.put_message(source.name, "spent")
    assert rest.next_message(source.name, lease_seconds=0) is not None
    assert rest.next_message(source.name) is None
    (filled,) = find(rest, dead.arn)
    (letter,) = rest.dead_letters(dead.name).messages
    assert filled.depth is not None
    assert (filled.depth.visible, filled.depth.oldest_sent_at) == (1, letter.sent_at)
    assert filled.depth.oldest_age_seconds is not None
    assert (letter.body, letter.source_arn, letter.cause) == ("spent", source.arn, "spent:receives")
    assert rest.dead_letter_sources(dead.name).queues == [source.name]
    assert rest.redrive(dead.name).status == "RUNNING"
    assert rest.next_message(source.name, wait_seconds=20) is not None

    def done() -> bool:
        (redrive,) = rest.redrives(dead.name).redrives
        return (redrive.status, redrive.moved) == ("COMPLETED", 1)

    wait_until(done, lambda: f"{rest.redrives(dead.name)}")
    assert rest.dead_letters(dead.name).messages == []


def test_of_subscriptions(rest: Client, sqs: Any, topic: Topic) -> None:
    """Dead letters of subscriptions: their queues have no policy that allows the topic."""
    url = queue_for(sqs, topic.arn)
    dead, name = arn_of(sqs, url), url.rpartition("/")[2]
    letters = topic.dead_letters_to(dead)
    first, second = [topic.subscribe("sqs", arn_of(sqs, queue_for(sqs)), **letters) for _ in range(2)]
    raw = topic.subscribe("sqs", arn_of(sqs, queue_for(sqs)), RawMessageDelivery="true", **letters)
    sent = topic.publish("m")

    def letters_found() -> dict[str, tuple[str | None, str | None]]:
        return {one.message_id: (one.source_arn, one.cause) for one in rest.dead_letters(name).messages}

    wanted = sorted([(first, "permanent:queue"), (second, "permanent:queue"), (None, None)], key=str)
    wait_until(lambda: sorted(letters_found().values(), key=str) == wanted, lambda: f"{letters_found()}")
    of_first = next(one for one in rest.dead_letters(name).messages if one.source_arn == first)
    assert (of_first.notification_id, of_first.topic_arn) == (sent, topic.arn)
    assert of_first.dead_lettered_at is not None
    entries = find(rest, dead)  # a dead-letter queue may be on several pages, each with some of its sources
    assert {arn for entry in entries for arn in entry.subscriptions} == {first, second, raw}
    for entry in entries:
        assert entry.depth is not None
        assert (entry.queues, entry.depth.visible) == ([], 3)
    rest.unsubscribe(first)
    assert {arn for entry in find(rest, dead) for arn in entry.subscriptions} == {second, raw}


@pytest.mark.extended
def test_a_page_reads_on_until_there_is_something_to_show(service: Service) -> None:
    keys = keys_in(service.cns("account", "create").stdout)
    theirs = service.client("sqs", **keys)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: theirs.create_queue(QueueName=f"a-{n}"), range(SCANNED + 1)))
    dead = arn_of(theirs, theirs.create_queue(QueueName="dead")["QueueUrl"])
    policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 2})
    theirs.create_queue(QueueName="work", Attributes={"RedrivePolicy": policy})
    with Client(
        service.url, dead.split(":")[4], Credentials(key_id=keys["key"], secret=keys["secret"]), region=REGION
    ) as client:
        page = client.dead_letter_queues()
    assert [(one.arn, one.queues) for one in page.dead_letter_queues] == [(dead, ["work"])]


def test_a_queue_that_is_gone_has_no_depth(rest: Client, new_name: Callable[[], str]) -> None:
    dead = rest.create_queue(new_name())
    source = rest.create_queue(
        new_name(), {"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 2})}
    )
    rest.delete_queue(dead.name)
    (entry,) = find(rest, dead.arn)
    assert (entry.queues, entry.depth) == ([source.name], None)


def test_refusals(rest: Client, http: httpx.Client, connect: Callable[[Credentials], Client], account: str) -> None:
    for after in ("x", "bm90IGpzb24=", "WyIiXQ=="):
        answer = http.get(f"/accounts/{account}/deadLetterQueues", params={"after": after})
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidRequest"), after
    queue = rest.create_queue(f"dead-{uuid.uuid4().hex[:8]}").name
    writer = connect(Credentials(token=rest.create_permission(["PutMessage"]).token))
    of_one_queue = connect(Credentials(token=rest.create_permission(queue=queue).token))
    assert of_one_queue.dead_letters(queue).messages == []
    for refused in (
        lambda: writer.dead_letter_queues(),
        lambda: writer.dead_letters(queue),
        lambda: of_one_queue.dead_letter_queues(),
    ):
        assert refusal_of(refused) == (403, "AccessDenied")
    other = http.get("/accounts/123456789012/deadLetterQueues")
    assert (other.status_code, other.json()["code"]) == (403, "AccessDenied")
