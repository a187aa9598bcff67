"""Queue URLs of LocalStack's endpoint strategies, written and read."""

from __future__ import annotations

import pytest

from cns_common.aws.call import Call, root_caller
from cns_common.aws.region import region_of_host, region_of_path
from cns_common.errors import RequestError
from cqs.localstack.url_styles import UrlStyle, url_writer
from cqs.queues.names import QueueKey
from cqs.queues.urls import addressed_queue, queue_in_named_region

ACCOUNT = "000000000000"
HERE, THERE = "us-east-1", "eu-west-1"
LOCAL = "localhost.localstack.cloud"


def call(host: str = "127.0.0.1:4566", *, path: str = "/", scheme: str = "http", account: str = ACCOUNT) -> Call:
    return Call(caller=root_caller(account), region=HERE, request_id="r", base_url=f"{scheme}://{host}", path=path)


def key(region: str = HERE) -> QueueKey:
    return (ACCOUNT, region, "q")


@pytest.mark.spec("localstack.urls")
@pytest.mark.parametrize(
    ("style", "host", "region", "url"),
    [
        ("off", "127.0.0.1:4566", THERE, f"http://127.0.0.1:4566/{ACCOUNT}/q"),
        ("standard", "127.0.0.1:4566", HERE, f"http://sqs.us-east-1.{LOCAL}:4566/{ACCOUNT}/q"),
        ("standard", "127.0.0.1:4566", THERE, f"http://sqs.eu-west-1.{LOCAL}:4566/{ACCOUNT}/q"),
        ("standard", "[::1]:8080", HERE, f"http://sqs.us-east-1.{LOCAL}:8080/{ACCOUNT}/q"),
        ("standard", "queues", HERE, f"http://sqs.us-east-1.{LOCAL}/{ACCOUNT}/q"),
        ("domain", "127.0.0.1:4566", HERE, f"http://queue.{LOCAL}:4566/{ACCOUNT}/q"),
        ("domain", "127.0.0.1:4566", THERE, f"http://eu-west-1.queue.{LOCAL}:4566/{ACCOUNT}/q"),
        ("path", "stack:4566", HERE, f"http://stack:4566/queue/us-east-1/{ACCOUNT}/q"),
        ("path", "stack:4566", THERE, f"http://stack:4566/queue/eu-west-1/{ACCOUNT}/q"),
        ("dynamic", "sqs.us-east-1.stack:4566", HERE, f"http://sqs.us-east-1.stack:4566/{ACCOUNT}/q"),
        ("dynamic", "sqs.us-east-1.stack:4566", THERE, f"http://sqs.eu-west-1.stack:4566/{ACCOUNT}/q"),
        ("dynamic", "queue.stack:4566", HERE, f"http://queue.stack:4566/{ACCOUNT}/q"),
        ("dynamic", "queue.stack:4566", THERE, f"http://eu-west-1.queue.stack:4566/{ACCOUNT}/q"),
        ("dynamic", "eu-west-1.queue.stack:4566", HERE, f"http://queue.stack:4566/{ACCOUNT}/q"),
        ("dynamic", "stack:4566", HERE, f"http://stack:4566/queue/us-east-1/{ACCOUNT}/q"),
        ("dynamic", "sqs.stack", HERE, f"http://sqs.stack/queue/us-east-1/{ACCOUNT}/q"),
    ],
)
def test_written(style: UrlStyle, host: str, region: str, url: str) -> None:
    assert url_writer(style)(call(host), key(region)) == url


@pytest.mark.parametrize(
    ("style", "url"),
    [
        ("standard", f"https://sqs.eu-west-1.queues.example.org/{ACCOUNT}/q"),
        ("domain", f"https://eu-west-1.queue.queues.example.org/{ACCOUNT}/q"),
        ("path", f"https://queues.example.org/queue/eu-west-1/{ACCOUNT}/q"),
        ("off", f"https://queues.example.org/{ACCOUNT}/q"),
    ],
)
def test_written_under_a_public_url(style: UrlStyle, url: str) -> None:
    public = "queues.example.org"
    assert url_writer(style, public)(call(public, scheme="https"), key(THERE)) == url


@pytest.mark.parametrize("style", ["off", "standard", "domain", "path", "dynamic"])
@pytest.mark.parametrize("host", ["127.0.0.1:4566", f"sqs.us-east-1.{LOCAL}:4566", f"us-east-1.queue.{LOCAL}:4566"])
@pytest.mark.parametrize("asked_at", ["127.0.0.1:4566", f"queue.{LOCAL}:4566"])
def test_what_is_written_can_be_read(style: UrlStyle, host: str, asked_at: str) -> None:
    url = url_writer(style)(call(host), key())
    assert addressed_queue(call(asked_at), url) == queue_in_named_region(call(asked_at), url) == key()


@pytest.mark.spec("localstack.addresses")
@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        (f"http://sqs.eu-west-1.{LOCAL}:4566/{ACCOUNT}/q", "stack", "/"),
        (f"http://eu-west-1.queue.{LOCAL}:4566/{ACCOUNT}/q", "stack", "/"),
        (f"http://stack/queue/eu-west-1/{ACCOUNT}/q", "stack", "/"),
        (f"http://elsewhere/queue/eu-west-1/{ACCOUNT}/q", "stack", "/"),
        (f"/queue/eu-west-1/{ACCOUNT}/q", "stack", "/"),
        (f"http://sqs.eu-west-1.{LOCAL}/{ACCOUNT}/q", f"sqs.us-east-1.{LOCAL}", f"/queue/us-east-1/{ACCOUNT}/other"),
        (None, "stack", f"/queue/eu-west-1/{ACCOUNT}/q"),
        (None, f"sqs.us-east-1.{LOCAL}", f"/queue/eu-west-1/{ACCOUNT}/q"),
        (None, f"sqs.eu-west-1.{LOCAL}", f"/{ACCOUNT}/q"),
        (None, "eu-west-1.queue.stack", f"/{ACCOUNT}/q"),
    ],
)
def test_the_named_region_counts(url: str | None, host: str, path: str) -> None:
    assert queue_in_named_region(call(host, path=path), url) == key(THERE)


@pytest.mark.parametrize("url", ["q", f"http://stack/{ACCOUNT}/q", f"http://queue.{LOCAL}/{ACCOUNT}/q"])
def test_without_a_named_region_the_signature_s_counts(url: str) -> None:
    assert queue_in_named_region(call(f"sqs.eu-west-1.{LOCAL}"), url) == key()


@pytest.mark.parametrize("url", ["http://stack/", "http://stack/cns/jobs", f"ftp://sqs.eu-west-1.x/{ACCOUNT}/q"])
def test_nothing_there(url: str) -> None:
    with pytest.raises(RequestError) as caught:
        queue_in_named_region(call(), url)
    assert caught.value.code == "QueueDoesNotExist"


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.eu-west-1.amazonaws.com", THERE),
        ("sqs.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("eu-west-1.queue.amazonaws.com", THERE),
        ("queue.amazonaws.com", HERE),
        (f"queue.{LOCAL}:4566", HERE),
        ("queue.example.org", ""),
        ("queue.localhost.localstack.cloud.example.org", ""),
        ("sqs.example.org", ""),
        ("localhost:4566", ""),
    ],
)
def test_regions_of_hosts(host: str, region: str) -> None:
    assert region_of_host(host) == region


def test_regions_of_paths() -> None:
    assert region_of_path(f"/queue/eu-west-1/{ACCOUNT}/q") == THERE
    assert region_of_path(f"/{ACCOUNT}/q") == ""
    assert region_of_path("/queue/eu-west-1/q") == ""
