"""Every page and action: refused without a session, without the form's token, to other accounts, to users whom a
policy denies it, and across the roles of operators and accounts."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from fastapi.routing import APIRoute

from cns_server.pages.app import PagesApp
from cns_server.pages.live import ACCOUNT_STREAMS_MAX, SESSION_STREAMS_MAX
from lab.harness.endpoints import Endpoint
from lab.harness.processes import keys_in
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until
from tests.acceptance.pages.person import Person
from tests.acceptance.topics import Topic

FAILURES = 25  # more in a row than the circuit breaker allows
# the subject of a page: any user; the user's own lists; a resource of an account; operators only
ROUTES: dict[tuple[str, str], str] = {
    ("GET", "/"): "everybody",
    ("GET", "/sign-in"): "everybody",
    ("POST", "/sign-in"): "everybody",
    ("POST", "/sign-out"): "everybody",
    ("GET", "/search"): "signed in",
    ("GET", "/service"): "signed in",
    ("GET", "/service/live"): "signed in",
    ("GET", "/endpoints"): "signed in",
    ("GET", "/queues"): "list",
    ("GET", "/topics"): "list",
    ("GET", "/messages"): "list",
    ("GET", "/deliveries"): "list",
    ("GET", "/dead-letters"): "list",
    ("POST", "/queues"): "create",
    ("POST", "/topics"): "create",
    ("POST", "/endpoints/probe"): "probe",
    ("GET", "/queues/{name}"): "queue",
    ("GET", "/queues/{name}/live"): "queue",
    ("POST", "/queues/{name}/messages"): "queue",
    ("POST", "/queues/{name}/purge"): "queue",
    ("POST", "/queues/{name}/redrive"): "queue",
    ("POST", "/queues/{name}/redrive/cancel"): "queue",
    ("POST", "/queues/{name}/attributes"): "queue",
    ("POST", "/queues/{name}/delete"): "queue",
    ("GET", "/topics/{name}"): "topic",
    ("POST", "/topics/{name}/trial"): "topic",
    ("POST", "/topics/{name}/messages"): "topic",
    ("POST", "/topics/{name}/subscriptions"): "topic",
    ("POST", "/topics/{name}/delete"): "topic",
    ("GET", "/messages/{message_id}"): "topic",
    ("GET", "/topics/{name}/subscriptions/{subscription}"): "subscription",
    ("POST", "/topics/{name}/subscriptions/{subscription}/attributes"): "subscription",
    ("POST", "/topics/{name}/subscriptions/{subscription}/trial"): "subscription",
    ("POST", "/topics/{name}/subscriptions/{subscription}/delete"): "subscription",
    ("POST", "/topics/{name}/subscriptions/{subscription}/pause"): "subscription",
    ("POST", "/topics/{name}/subscriptions/{subscription}/portal-links"): "subscription",
    ("POST", "/topics/{name}/subscriptions/{subscription}/portal-links/{link}/revoke"): "subscription",
    ("GET", "/accounts"): "operator",
    ("POST", "/accounts"): "operator",
    ("POST", "/accounts/{account}/rotate"): "operator",
    ("POST", "/service/pools"): "operator",
    ("POST", "/service/pools/reset"): "operator",
    ("GET", "/acts"): "operator",
    ("GET", "/reports"): "operator",
    ("GET", "/reports/{name}"): "operator",
    ("GET", "/reports/{name}/page"): "operator",
}
# fields that each action needs, all at once
FIELDS = {
    "name": "made-by-a-stranger",
    "body": "b",
    "message": "m",
    "sure": "yes",
    "attribute": "DisplayName",
    "value": "1",
    "protocol": "email",
    "endpoint": "a@example.com",
    "handle": "h",
    "policy": '{"a":["b"]}',
    "pool": "delivery",
    "threads": "2",
    "delay": "0",
    "days": "1",
    "paused": "true",
}
SNS_ACTIONS = ("GetTopicAttributes", "ListSubscriptionsByTopic", "Publish", "Subscribe", "DeleteTopic")


def of(*kinds: str, method: str = "") -> list[tuple[str, str]]:
    return [route for route, kind in ROUTES.items() if kind in kinds and method in ("", route[0])]


@dataclass(frozen=True)
class Estate:
    """The queue, topic, subscription and message of the first account."""

    queue: str
    topic: str
    subscription: str
    message: str
    account: str

    def path(self, template: str) -> str:
        name = self.queue if template.startswith("/queues") else self.topic
        values = {"message_id": self.message, "subscription": self.subscription, "account": self.account}
        values["link"] = "0" * 32
        return "/ui" + template.format(name=name, **values)

    def names(self) -> tuple[str, ...]:
        return self.queue, self.topic, self.message


@pytest.fixture
def estate(person: Person, topic: Topic, queue: str, endpoint: Endpoint) -> Estate:
    """With a message whose events are written."""
    subscription = topic.subscribe("http", endpoint.url).rpartition(":")[2]
    message = topic.publish("m")
    name = topic.arn.rpartition(":")[2]
    wait_until(lambda: person.http.get(f"/ui/messages/{message}").status_code == 200)
    return Estate(queue.rpartition("/")[2], name, subscription, message, topic.arn.split(":")[4])


@pytest.fixture
def other(open_browser: Callable[[], Person], stranger: dict[str, str]) -> Person:
    made = open_browser()
    made.sign_in(key_id=stranger["key"], secret=stranger["secret"], region=REGION)
    return made


@pytest.fixture
def denied(
    service: Service, open_browser: Callable[[], Person], estate: Estate, sqs: Any, queue: str, topic: Topic
) -> Person:
    """A user of the first account whom the policies of its queue and topic deny everything."""
    service.cns("account", "user", "delete", estate.account, "intern", check=False)
    keys = keys_in(service.cns("account", "user", "add", estate.account, "intern").stdout)
    user = {"AWS": f"arn:aws:iam::{estate.account}:user/intern"}
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": _denial(user, "sqs:*", queue_arn)})
    topic.set("Policy", _denial(user, [f"sns:{action}" for action in SNS_ACTIONS], topic.arn))
    made = open_browser()
    made.sign_in(key_id=keys["key"], secret=keys["secret"], region=REGION)
    return made


def _denial(principal: dict[str, str], actions: str | list[str], resource: str, denied: str = "") -> str:
    """It allows the principal's account the actions, and denies the principal all of them, or one."""
    owner = {"AWS": principal["AWS"].split(":")[4]}
    allow = {"Effect": "Allow", "Principal": owner, "Action": actions, "Resource": resource}
    deny = {"Effect": "Deny", "Principal": principal, "Action": denied or actions, "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]})


def asked(someone: Person, method: str, path: str) -> Any:
    if method == "GET":
        return someone.http.get(path, params={"q": "x"} if path == "/ui/search" else None)
    return someone.post(path, **FIELDS)


def test_the_table_has_every_route() -> None:
    app = PagesApp(MagicMock(), MagicMock(), version="")
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert {(method, route.path) for route in routes for method in route.methods or ()} == ROUTES.keys()


def test_without_a_session_there_is_the_sign_in_only(open_browser: Callable[[], Person], estate: Estate) -> None:
    nobody = open_browser()
    for method, template in ROUTES.keys() - set(of("everybody")):
        answer = nobody.http.request(method, estate.path(template), data=FIELDS if method == "POST" else None)
        assert answer.url.path == "/ui/sign-in", template


def test_a_form_without_the_token_of_its_session_is_refused(person: Person, operator: Person, estate: Estate) -> None:
    posted = [route for route in ROUTES if route[0] == "POST" and route[1] not in ("/sign-in",)]
    for someone in (person, operator):
        for token in ("", "guess", (operator if someone is person else person).form_token()):
            for _, template in posted:
                answer = someone.http.post(estate.path(template), data={**FIELDS, "form_token": token})
                assert answer.status_code == 403, (template, answer.text)
                assert "Open the page again" in answer.text


def test_other_accounts_find_nothing(other: Person, estate: Estate, person: Person) -> None:
    for method, template in of("queue", "topic", "subscription"):
        answer = asked(other, method, estate.path(template))
        nothing_deleted = template == "/topics/{name}/delete"  # SNS: a topic that does not exist is deleted at once
        assert answer.status_code in ((200,) if nothing_deleted else (403, 404)), template
        assert estate.message not in answer.text or template == "/messages/{message_id}"
    for _, template in of("list", method="GET"):
        answer = asked(other, "GET", estate.path(template))
        assert answer.status_code == 200, template
        assert not any(name in answer.text for name in estate.names()), template
    probed = other.post("/ui/endpoints/probe", account=estate.account, endpoint="http://example.com")
    assert probed.status_code == 404
    for _, template in of("queue", "topic", "subscription", method="GET"):
        if not template.endswith("/live"):
            assert person.http.get(estate.path(template)).status_code == 200, "all is still there"


def test_what_a_policy_denies_a_user_the_pages_deny(denied: Person, estate: Estate, person: Person) -> None:
    for method, template in of("queue", "topic"):
        answer = asked(denied, method, estate.path(template))
        assert answer.status_code in ((404,) if template.startswith("/messages") else (403,)), (template, answer.text)
    assert estate.topic in person.http.get(estate.path("/topics/{name}")).text, "its owner may"


def test_lists_have_no_rows_of_what_a_policy_denies(
    denied: Person, person: Person, estate: Estate, topic: Topic, endpoint: Endpoint
) -> None:
    """Rows and figures, as with the lists of deliveries of the REST API, which need both actions."""
    endpoint.behave(refuse=True)
    published = [f"/ui/messages/{topic.publish(str(n))}" for n in range(FAILURES)]

    def shows(someone: Person, path: str) -> bool:
        """By the text of a row, or a link to one of these messages: hosts are those of other tests, too."""
        page, text = html.unescape(someone.http.get(path).text), lists[path]
        return f"{text}<" in page if text else any(link in page for link in published)

    lists = {
        f"/ui/messages?topic={estate.topic}": "",
        "/ui/messages": "",
        "/ui/deliveries?by=topic": estate.topic,
        "/ui/deliveries?by=subscription": f"{topic.arn}:{estate.subscription}",
        "/ui/deliveries?by=endpoint": "",
        "/ui/endpoints": endpoint.url,
    }
    for path in lists:
        wait_until(partial(shows, person, path), partial(str, path))
        assert not shows(denied, path), path
    assert denied.post("/ui/endpoints/probe", account=estate.account, endpoint=endpoint.url).status_code == 404
    user = {"AWS": f"arn:aws:iam::{estate.account}:user/intern"}
    actions = [f"sns:{action}" for action in SNS_ACTIONS]
    topic.set("Policy", _denial(user, actions, topic.arn, denied="sns:ListSubscriptionsByTopic"))
    assert denied.http.get(estate.path("/messages/{message_id}")).status_code == 404
    assert [path for path in lists if shows(denied, path)] == []
    topic.set("Policy", _denial(user, actions, topic.arn, denied="sns:Publish"))
    assert [path for path in lists if not shows(denied, path)] == [], "it may see these"


def test_accounts_do_not_what_operators_do(person: Person, estate: Estate) -> None:
    for method, template in of("operator"):
        assert asked(person, method, estate.path(template)).status_code == 403, template


def test_operators_have_no_queues_and_topics(operator: Person, estate: Estate) -> None:
    for method, template in of("list", "create", "queue", "topic", "subscription"):
        answer = asked(operator, method, estate.path(template))
        assert answer.status_code == 403, template
        assert estate.message not in answer.text


@pytest.mark.parametrize("narrow", [{"levels": ["PutMessage"]}, {"queue": "some"}])
def test_a_narrow_token_is_no_session(
    service: Service, open_browser: Callable[[], Person], person: Person, estate: Estate, narrow: dict[str, Any]
) -> None:
    """Pages show data that no action of a token's levels reads: messages, failures, endpoints."""
    keys = service.environment
    root = (keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"])
    token = httpx.post(f"{service.url}/api/v1/tokens", json=narrow, auth=root).json()["token"]
    holder = open_browser()
    holder.http.cookies.set("cns_session", token)
    assert estate.message in person.http.get("/ui/messages").text
    for method, template in ROUTES.keys() - set(of("everybody")):
        answer = holder.http.request(method, estate.path(template), data=FIELDS if method == "POST" else None)
        assert answer.url.path == "/ui/sign-in", template


def test_live_figures_end_with_the_session(
    service: Service, open_browser: Callable[[], Person], new_name: Callable[[], str]
) -> None:
    keys = keys_in(service.cns("account", "create").stdout)
    sqs = service.client("sqs", **keys)
    queue = new_name()
    sqs.create_queue(QueueName=queue)
    account = service.client("sts", **keys).get_caller_identity()["Account"]
    someone = open_browser()
    someone.sign_in(key_id=keys["key"], secret=keys["secret"], region=REGION)
    with someone.http.stream("GET", f"/ui/queues/{queue}/live") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("data: ")
        service.cns("account", "rotate", account)
        for _ in lines:  # the stream ends
            pass
    assert someone.http.get(f"/ui/queues/{queue}").url.path == "/ui/sign-in"


def test_live_figures_are_limited_by_session_and_account(
    service: Service, open_browser: Callable[[], Person], new_name: Callable[[], str]
) -> None:
    keys = keys_in(service.cns("account", "create").stdout)
    queue = new_name()
    service.client("sqs", **keys).create_queue(QueueName=queue)

    def signed_in() -> Person:
        someone = open_browser()
        someone.sign_in(key_id=keys["key"], secret=keys["secret"], region=REGION)
        return someone

    with ExitStack() as streams:

        def follow(someone: Person, path: str = f"/ui/queues/{queue}/live") -> int:
            return streams.enter_context(someone.http.stream("GET", path)).status_code

        first = signed_in()
        assert [follow(first) for _ in range(SESSION_STREAMS_MAX)] == [200] * SESSION_STREAMS_MAX
        assert (follow(first), follow(first, "/ui/service/live")) == (429, 429)
        sessions = ACCOUNT_STREAMS_MAX // SESSION_STREAMS_MAX - 1
        others = [signed_in() for _ in range(sessions)]
        assert {follow(other) for other in others for _ in range(SESSION_STREAMS_MAX)} == {200}
        assert follow(signed_in(), "/ui/service/live") == 429
        assert signed_in().http.get(f"/ui/queues/{queue}").status_code == 200

    def follows_again() -> bool:
        with first.http.stream("GET", f"/ui/queues/{queue}/live") as stream:
            return stream.status_code == 200

    wait_until(follows_again)
