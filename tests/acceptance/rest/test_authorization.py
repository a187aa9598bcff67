"""Every operation of the REST API, called without rights: without credentials, as another account, with a token for
something else, and where only root may, as a named user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from cns.client import Client, Credentials
from lab.harness.service import REGION, Service

PUBLIC = {"supportedAuthorizationLevels"}
OF_ANYBODY = {"showCaller", "createToken"}
"""Operations about the caller itself."""
ROOT_ONLY = ("accounts", "acts", "debug")
"""Tags of operations that are for operators, most of them also for root."""
REFUSED = {403, 404}
BODIES: dict[str, dict[str, Any]] = {
    "createQueue": {"name": "q"},
    "changeQueue": {"attributes": {"VisibilityTimeout": "1"}},
    "startRedrive": {},
    "putMessage": {"body": "m"},
    "updateMessage": {"leaseSeconds": 1},
    "createTopic": {"name": "t"},
    "changeTopic": {"attributes": {"DisplayName": "x"}},
    "publishMessage": {"message": "m"},
    "createSubscription": {"protocol": "email", "endpoint": "a@example.org"},
    "confirmSubscription": {"token": "t"},
    "changeSubscription": {"attributes": {"RawMessageDelivery": "true"}},
    "createPortalLink": {"lifeSeconds": 60},
    "testFilter": {"policy": {"a": ["b"]}},
    "createPermission": {"levels": ["PutMessage"]},
    "createToken": {"levels": ["PutMessage"]},
    "changeAccount": {"name": "Mallory"},
    "addUser": {"name": "mallory"},
    "changeUser": {"active": False},
    "changeUserKey": {"active": False},
}


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    tag: str
    body: dict[str, Any] | None

    def call(self, http: httpx.Client) -> int:
        params = {"popReceipt": "x"} if self.id in ("updateMessage", "acknowledgeMessage") else {}
        return http.request(self.method, self.path, json=self.body, params=params).status_code


@pytest.fixture
def operations(nobody: httpx.Client, account: str, queue_name: str, rest: Client) -> list[Operation]:
    """All operations of the document, on resources of the first account."""
    topic = rest.create_topic(f"t-{queue_name}").name
    arn = rest.subscribe(topic, "sqs", rest.show_queue(queue_name).arn).arn
    names = {
        "account": account,
        "queue": queue_name,
        "topic": topic,
        "subscription": arn.rpartition(":")[2],
        "message": "00000000-0000-4000-8000-000000000000",
        "handle": "h",
        "link": "0" * 32,
        "user": "alice",
        "key_id": "AKIA0000000000000000",
        "bucket": 0,
        "pointer": 0,
    }
    document = nobody.get("/openapi.json").json()
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = BODIES[operation["operationId"]] if "requestBody" in operation else None
            filled = path.format_map(names)
            found.append(Operation(operation["operationId"], method.upper(), filled, operation["tags"][0], body))
    return found


@pytest.fixture
def connected(service: Service) -> Iterator[Callable[[Credentials], httpx.Client]]:
    clients: list[httpx.Client] = []

    def connect(credentials: Credentials) -> httpx.Client:
        client = httpx.Client(
            base_url=f"{service.url}/api/v1",
            auth=credentials.basic(),
            headers=credentials.headers(),
            params={"region": REGION},
        )
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


def answers(operations: list[Operation], http: httpx.Client) -> dict[str, int]:
    return {operation.id: operation.call(http) for operation in operations}


def test_without_credentials(operations: list[Operation], nobody: httpx.Client) -> None:
    private = [one for one in operations if one.id not in PUBLIC]
    assert len(private) > 40
    assert {id_: status for id_, status in answers(private, nobody).items() if status != 401} == {}


def test_as_another_account(
    operations: list[Operation], connected: Callable[[Credentials], httpx.Client], stranger: dict[str, str]
) -> None:
    http = connected(Credentials(key_id=stranger["key"], secret=stranger["secret"]))
    theirs = [one for one in operations if one.id not in PUBLIC | OF_ANYBODY | {"createPermission"}]
    statuses = answers(theirs, http)
    assert [statuses.pop(id_) for id_ in ("confirmSubscription", "cancelRedrive")] == [400] * 2, "by no such token"
    assert {id_: status for id_, status in statuses.items() if status not in REFUSED} == {}


def test_with_a_token_for_something_else(
    operations: list[Operation], connected: Callable[[Credentials], httpx.Client], rest: Client, queue_name: str
) -> None:
    other = rest.create_queue(f"{queue_name}-other").name
    http = connected(Credentials(token=rest.create_permission(["PutMessage"], queue=other).token))
    refused = [one for one in operations if one.id not in PUBLIC | {"showCaller"}]
    assert {id_: status for id_, status in answers(refused, http).items() if status != 403} == {}


def test_as_a_user_without_privileges(
    operations: list[Operation], connected: Callable[[Credentials], httpx.Client], http: httpx.Client, account: str
) -> None:
    key = http.post(f"/accounts/{account}/users", json={"name": "unprivileged"}).json()
    user = connected(Credentials(key_id=key["keyId"], secret=key["secret"]))
    of_root = [one for one in operations if one.tag in ROOT_ONLY]
    assert len(of_root) > 15
    assert {id_: status for id_, status in answers(of_root, user).items() if status != 403} == {}


def test_an_operator_sees_no_messages(
    operations: list[Operation], connected: Callable[[Credentials], httpx.Client], service: Service
) -> None:
    http = connected(Credentials(token=service.cns("operator", "token").stdout.strip()))
    others = [one for one in operations if one.tag not in ROOT_ONLY and one.id not in PUBLIC | {"showCaller"}]
    assert {id_: status for id_, status in answers(others, http).items() if status != 403} == {}
