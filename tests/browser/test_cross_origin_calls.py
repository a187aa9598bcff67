"""A page of another origin calls SQS and SNS with signed `fetch`es in Chromium (`CNS_CORS_ORIGINS`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from playwright.sync_api import Browser, Page

from lab.harness.running import Up, running

FETCH = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options)
        const shown = {status: answer.status, text: await answer.text()}
        for (const name of ["x-amzn-requestid", "x-amzn-query-error"]) shown[name] = answer.headers.get(name)
        return shown
    } catch (error) { return {blocked: error.name} }
}"""
BLOCKED = {"blocked": "TypeError"}


class _App(BaseHTTPRequestHandler):
    """A page without content."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any, **__: Any) -> None:
        pass


@contextmanager
def _origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _App) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def origins() -> Iterator[tuple[str, str]]:
    """One that may call, and one that may not."""
    with _origin() as allowed, _origin() as other:
        yield allowed, other


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, origins: tuple[str, str]) -> Iterator[Up]:
    environment = {"CNS_CORS_ORIGINS": f"https://app.example.com,{origins[0]}"}
    with running(tmp_path_factory.mktemp("cors") / "data", environment=environment) as started:
        yield started


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    yield context.new_page()
    context.close()


def signed(service: Up, name: str, headers: dict[str, str], body: str) -> dict[str, Any]:
    """The options of a `fetch`."""
    keys = Credentials(service.environment["AWS_ACCESS_KEY_ID"], service.environment["AWS_SECRET_ACCESS_KEY"])
    request = AWSRequest("POST", f"{service.url}/", headers=headers, data=body)
    SigV4Auth(keys, name, "us-east-1").add_auth(request)
    return {"method": "POST", "headers": dict(request.headers), "body": body}


def json_call(service: Up, action: str, body: str) -> dict[str, Any]:
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": f"AmazonSQS.{action}",
        "x-amz-user-agent": "aws-sdk-js/3",
        "amz-sdk-invocation-id": "1",
        "amz-sdk-request": "attempt=1; max=3",
        "x-amzn-query-mode": "true",
    }
    return signed(service, "sqs", headers, body)


def query_call(service: Up, **fields: str) -> dict[str, Any]:
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    return signed(service, "sns", headers, urlencode({"Version": "2010-03-31", **fields}))


def call(page: Page, url: str, options: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = page.evaluate(FETCH, [url, options])
    return shown


def test_an_allowed_origin_reads_answers_and_errors(page: Page, service: Up, origins: tuple[str, str]) -> None:
    page.goto(origins[0])
    created = call(page, service.url, json_call(service, "CreateQueue", '{"QueueName": "from-a-browser"}'))
    assert created["status"] == 200 and "from-a-browser" in created["text"] and created["x-amzn-requestid"]
    topic = call(page, service.url, query_call(service, Action="CreateTopic", Name="from-a-browser"))
    assert topic["status"] == 200 and "<TopicArn>" in topic["text"] and topic["x-amzn-requestid"]
    absent = call(page, service.url, json_call(service, "GetQueueUrl", '{"QueueName": "absent"}'))
    assert absent["status"] == 400 and "AWS.SimpleQueueService.NonExistentQueue" in absent["x-amzn-query-error"]
    wrong = call(page, service.url, query_call(service, Action="Nonsense"))
    assert wrong["status"] == 400 and "InvalidAction" in wrong["text"]
    large = {**json_call(service, "SendMessage", "{}"), "body": "x" * 7_000_000}
    assert call(page, service.url, large)["status"] == 413


def test_no_other_page_and_no_credentials(page: Page, service: Up, origins: tuple[str, str]) -> None:
    page.goto(origins[0])
    listing = json_call(service, "ListQueues", "{}")
    assert call(page, service.url, {**listing, "credentials": "include"}) == BLOCKED
    for path in ("/ui/", "/ui/sign-in", "/api/v1/caller", "/portal/", "/_cns/clock", "/metrics", "/health"):
        assert call(page, service.url + path, {}) == BLOCKED, path
    page.goto(origins[1])
    assert call(page, service.url, listing) == BLOCKED
    assert call(page, service.url, query_call(service, Action="ListTopics")) == BLOCKED


@pytest.mark.spec("localstack.cors")
def test_localstack_s_users_call_from_any_port_of_this_machine(
    page: Page, tmp_path: Path, origins: tuple[str, str]
) -> None:
    with running(tmp_path / "data", "--compat", "localstack") as stack:
        stack.environment.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
        for origin in origins:
            page.goto(origin)
            assert call(page, stack.url, json_call(stack, "ListQueues", "{}"))["status"] == 200
