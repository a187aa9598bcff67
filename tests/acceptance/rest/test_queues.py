"""Queues over REST: the same ones as over SQS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from cns.client import ApiError, Client
from lab.harness.service import Service
from tests.acceptance.rest.refusals import refusal_of


def test_a_queue_from_its_creation_to_its_end(rest: Client, sqs: Any, new_name: Callable[[], str]) -> None:
    name = new_name()
    made = rest.create_queue(name, {"VisibilityTimeout": "7"}, {"team": "blue"})
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"].endswith(made.url.partition("://")[2].partition("/")[2])
    shown = rest.show_queue(name)
    assert (shown.arn, shown.tags, shown.attributes["VisibilityTimeout"]) == (made.arn, {"team": "blue"}, "7")
    assert rest.change_queue(name, {"VisibilityTimeout": "8"}).attributes["VisibilityTimeout"] == "8"
    assert rest.list_queues(prefix=name).queues == [name]
    rest.delete_queue(name)
    assert refusal_of(rest.show_queue, name) == (404, "QueueDoesNotExist")


def test_response_times_are_counted_by_operation(rest: Client, service: Service, new_name: Callable[[], str]) -> None:
    def counted(operation: str) -> float:
        return service.metric("cns_api_call_seconds_count", service="rest", operation=operation)

    before = counted("showQueue"), counted("deleteQueue")
    name = rest.create_queue(new_name()).name
    rest.show_queue(name)
    with pytest.raises(ApiError):
        rest.delete_queue(new_name())
    assert (counted("showQueue"), counted("deleteQueue")) == (before[0] + 1, before[1])


def test_an_unknown_queue_cannot_be_deleted(rest: Client, new_name: Callable[[], str]) -> None:
    assert refusal_of(rest.delete_queue, new_name()) == (404, "QueueDoesNotExist")


def test_creation_says_whether_the_queue_is_new(http: httpx.Client, account: str, new_name: Callable[[], str]) -> None:
    path, body = f"/accounts/{account}/queues", {"name": new_name()}
    assert [http.post(path, json=body).status_code for _ in range(2)] == [201, 200]
    other = http.post(path, json={**body, "attributes": {"VisibilityTimeout": "1"}})
    assert (other.status_code, other.json()["code"]) == (409, "QueueNameExists")


def test_lists_are_read_page_by_page(http: httpx.Client, account: str, new_name: Callable[[], str]) -> None:
    path, prefix = f"/accounts/{account}/queues", new_name()
    names = [f"{prefix}-{n}" for n in range(5)]
    for name in names:
        assert http.post(path, json={"name": name}).status_code == 201
    found: list[str] = []
    after = ""
    while True:
        page = http.get(path, params={"prefix": prefix, "limit": 2, "after": after}).json()
        assert len(page["queues"]) <= 2
        found += page["queues"]
        if not (after := page["next"]):
            break
    assert found == names


def test_lists_with_definitions(rest: Client, new_name: Callable[[], str]) -> None:
    prefix = new_name()
    made = [rest.create_queue(f"{prefix}-{n}", {"DelaySeconds": f"{n}"}, {"n": f"{n}"}) for n in range(3)]
    denied = '{"Statement":[{"Effect":"Deny","Principal":"*","Action":"sqs:GetQueueAttributes","Resource":"*"}]}'
    hidden = rest.create_queue(f"{prefix}-denied", {"Policy": denied})
    listed = rest.list_queues(prefix, definitions=True)
    assert listed.queues == [*[one.name for one in made], hidden.name]
    assert listed.definitions is not None
    assert [(one.name, one.arn, one.url, one.tags) for one in listed.definitions] == [
        (one.name, one.arn, one.url, one.tags) for one in made
    ]
    assert [one.attributes["DelaySeconds"] for one in listed.definitions] == ["0", "1", "2"]
    assert {one.attributes["VisibilityTimeout"] for one in listed.definitions} == {"30"}
    assert rest.list_queues(prefix).definitions is None


def test_a_path_that_no_route_matches_is_a_problem(http: httpx.Client, account: str) -> None:
    for path in (f"/accounts/{account}/topics/a%0Ab/failures", "/nothing", "/%0A"):
        refused = http.get(path)
        assert refused.status_code in (400, 404)
        assert refused.headers["content-type"] == "application/problem+json"


def test_purge_and_statistics(rest: Client, queue_name: str) -> None:
    for n in range(3):
        rest.put_message(queue_name, f"m{n}")
    rest.put_message(queue_name, "late", delay_seconds=900)
    assert rest.next_message(queue_name) is not None
    counted = rest.queue_statistics(queue_name)
    assert (counted.visible, counted.in_flight, counted.delayed) == (2, 1, 1)
    rest.purge_queue(queue_name)
    counted = rest.queue_statistics(queue_name)
    assert (counted.visible, counted.in_flight, counted.delayed) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "bad name"}, "Can only include alphanumeric"),
        ({"name": "q", "attributes": {"VisibilityTimeout": "x"}}, "VisibilityTimeout"),
        ({"name": "q", "colour": "red"}, "colour"),
        ({}, "name"),
    ],
)
def test_bad_queues_are_refused(http: httpx.Client, account: str, body: dict[str, Any], text: str) -> None:
    refused = http.post(f"/accounts/{account}/queues", json=body)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert problem["status"] == 400
    assert problem["type"] == f"urn:cns:problem:{problem['code']}"
    assert text in problem["detail"]
