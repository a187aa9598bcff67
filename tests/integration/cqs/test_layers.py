"""The storage of queues is replaced under the same queue operations, AWS protocols and REST API: every answer is the
same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Engine
from tests.conformance.drivers import DRIVERS, Driver
from tests.integration.errors.api_forms import ACCOUNT, HOST, ApiAnswer, FormOfApi, credentials, embedded_api
from tests.marks import first

URL = f"http://{HOST.decode()}/{ACCOUNT}/q"
MESSAGES = f"/api/v1/accounts/{ACCOUNT}/queues/q/messages"
STORAGES = ("remote", "cassieq", *[name for name in DRIVERS if name not in ("embedded", "remote", "cassieq")])
TEXTS = ["by JSON", "by Query", "by REST"]


@pytest.fixture
async def replaced(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FormOfApi]:
    """The API over stores of SQLite and the queue engine that the test names."""
    async with AsyncExitStack() as stack:
        engine: Engine = await stack.enter_async_context(Driver(request.param, tmp_path / "engine", Clock()).open())
        yield await stack.enter_async_context(embedded_api(tmp_path / "api", engine))


async def _rest(api: FormOfApi, method: str, **request: Any) -> tuple[int, dict[str, Any]]:
    path = MESSAGES + request.pop("path", "")
    answer = await api.http.request(method, path, headers={"authorization": credentials("sqs")}, **request)
    return answer.status_code, json.loads(answer.content) if answer.content else {}


def _texts(answer: ApiAnswer, name: str) -> list[str]:
    """The texts of these elements of AWS Query."""
    return [one.text or "" for one in ElementTree.fromstring(answer.body).iter() if one.tag.endswith("}" + name)]


async def _use(api: FormOfApi) -> list[object]:
    """Each protocol sends, receives, hides and deletes; each meets errors. What callers were told, without ids."""
    told: list[object] = [(await api("sqs", "json", "CreateQueue", QueueName="q"))[:2]]
    told.append((await api("sqs", "json", "SendMessage", QueueUrl=URL, MessageBody=TEXTS[0]))[:2])
    told.append((await api("sqs", "query", "SendMessage", QueueUrl=URL, MessageBody=TEXTS[1]))[:2])
    told.append((await _rest(api, "POST", json={"body": TEXTS[2]}))[0])

    received = json.loads((await api("sqs", "json", "ReceiveMessage", QueueUrl=URL, MaxNumberOfMessages=10)).body)
    held = {message["Body"]: message["ReceiptHandle"] for message in received["Messages"]}
    told.append(sorted(held))
    told.append(_texts(await api("sqs", "query", "ReceiveMessage", QueueUrl=URL), "Body"))
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    shown = await api("sqs", "json", "GetQueueAttributes", QueueUrl=URL, AttributeNames=counts)
    told.append(json.loads(shown.body)["Attributes"])

    for text, timeout_s in ((TEXTS[0], 0), (TEXTS[1], 0)):
        hide = {"ReceiptHandle": held[text], "VisibilityTimeout": timeout_s}
        told.append((await api("sqs", "query", "ChangeMessageVisibility", QueueUrl=URL, **hide))[:2])
    status, leased = await _rest(api, "GET", path="/next", params={"leaseSeconds": 60})
    told.append((status, leased["deliveryCount"]))
    again = await api("sqs", "query", "ReceiveMessage", QueueUrl=URL, MaxNumberOfMessages=10, AttributeNames=["All"])
    told.append(sorted([leased["body"], *_texts(again, "Body")]))

    told.append(await _rest(api, "DELETE", params={"popReceipt": leased["popReceipt"]}))
    told.append((await _rest(api, "DELETE", params={"popReceipt": leased["popReceipt"]}))[0])
    for handle in (*_texts(again, "ReceiptHandle"), held[TEXTS[2]], "nonsense"):
        told.append((await api("sqs", "json", "DeleteMessage", QueueUrl=URL, ReceiptHandle=handle))[:2])
    told.append((await api("sqs", "query", "SendMessage", QueueUrl=URL + "2", MessageBody="x"))[:2])
    told.append((await api("sqs", "json", "ReceiveMessage", QueueUrl=URL)).body)
    told.append((await _rest(api, "GET", path="/next"))[0])
    return told


@pytest.mark.parametrize("replaced", first(STORAGES), indirect=True)
async def test_every_answer_is_the_same(replaced: FormOfApi, tmp_path: Path) -> None:
    async with embedded_api(tmp_path / "embedded") as usual:
        expected = await _use(usual)
    assert ["by JSON", "by Query", "by REST"] in expected
    assert await _use(replaced) == expected
