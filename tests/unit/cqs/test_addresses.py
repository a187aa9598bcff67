"""The ways to name a queue in a request."""

from __future__ import annotations

import pytest

from cns_common.aws.call import Call, root_caller
from cns_common.errors import RequestError
from cqs.queues.urls import addressed_queue, key_of_arn, queue_url

ACCOUNT = "000000000000"
OTHER = "111111111111"
BASE = "http://localhost:6059"


def call(path: str = "/", account: str = ACCOUNT) -> Call:
    return Call(caller=root_caller(account), region="us-east-1", request_id="r", base_url=BASE, path=path)


@pytest.mark.parametrize(
    ("url", "path", "account"),
    [
        (f"{BASE}/{OTHER}/q", "/", OTHER),
        (f"https://sqs.us-east-1.amazonaws.com/{OTHER}/q", "/", OTHER),
        (f"http://us-east-1.queue.localhost:4566/{OTHER}/q", "/", OTHER),
        (f"http://some.host/{OTHER}/q", f"/{ACCOUNT}/ignored", OTHER),
        (f"http://some.host/queue/us-east-1/{OTHER}/q", "/", OTHER),
        (f"{BASE}/queue/us-east-1/{OTHER}/q", "/", OTHER),
        (f"/{OTHER}/q", "/", OTHER),
        ("q", "/", ACCOUNT),
        ("http://some.host/q", "/", ACCOUNT),
        ("http://some.host:9324/queue/q", "/", ACCOUNT),
        (f"{BASE}1/queue/q", "/", ACCOUNT),
        ("/queue/q", "/", ACCOUNT),
        ("http://some.host/queue/us-east-1/q", "/", ACCOUNT),
        ("http://some.host//a-proxy.1_x/q", "/", ACCOUNT),
        (None, "/queue/q", ACCOUNT),
        (None, f"/{OTHER}/q", OTHER),
        ("", f"/{OTHER}/q", OTHER),
        (None, f"/queue/us-east-1/{OTHER}/q", OTHER),
    ],
)
def test_addressed(url: str | None, path: str, account: str) -> None:
    assert addressed_queue(call(path), url) == (account, "us-east-1", "q")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        (None, "/"),
        ("", "/"),
        ("http://some.host", "/"),
        (f"http://some.host/{OTHER}/q/", "/"),
        ("http://some.host/12345/q", "/"),
        (f"http://some.host/queue/{OTHER}/q", "/"),
        (f"http://some.host/{OTHER}/queue/q", "/"),
        ("http://some.host/11111111111%31/q", "/"),
        ("http://some.host/cns/queue/q", "/"),
        (f"http://some.host/ {OTHER}/q", "/"),
        (f"http://some.host/{OTHER}\t/q", "/"),
        (f"http://some.host/+{OTHER}/q", "/"),
        (f"http://some.host/acct={OTHER}/q", "/"),
        (f"http://some.host/acct{OTHER}/q", "/"),
        ("http://some.host/a1111-1111-1111/q", "/"),
        ("http://some.host/1111-1111-1111/q", "/"),
        (f"http://some.host\\{OTHER}/q", "/"),
        (f"http://some.host?{OTHER}/q", "/"),
        (f"http://some.host#{OTHER}/q", "/"),
        (f"http://{OTHER}/q", "/"),
        (f" {OTHER}/q", "/"),
        (f"http://some.host/{OTHER}/gr\u00fcn", "/"),
        ("gr\ud800n", "/"),
        ("ftp://some.host/x/y", "/"),
        (f"{BASE}/cns/publish-jobs", "/"),
        ("http://some.host/\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661/q", "/"),
    ],
)
def test_nothing_there(url: str | None, path: str) -> None:
    with pytest.raises(RequestError) as caught:
        addressed_queue(call(path), url)
    assert (caught.value.code, caught.value.message) == ("QueueDoesNotExist", "The specified queue does not exist.")


@pytest.mark.parametrize(
    "url",
    [
        f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/q",
        f"http://eu-west-1.queue.localhost:4566/{ACCOUNT}/q",
        f"http://localhost:4566/queue/eu-west-1/{ACCOUNT}/q",
        "http://localhost:4566/queue/eu-west-1/q",
        "queue/eu-west-1/q",
    ],
)
def test_other_region(url: str) -> None:
    with pytest.raises(RequestError) as caught:
        addressed_queue(call(), url)
    assert (caught.value.code, caught.value.message) == (
        "InvalidAddress",
        f"The address {url} is not valid for this endpoint.",
    )


def test_internal_queues_are_for_the_internal_account() -> None:
    assert addressed_queue(call(account="cns"), f"{BASE}/cns/jobs") == ("cns", "internal", "jobs")


def test_url_and_arn() -> None:
    assert queue_url(call(), (ACCOUNT, "us-east-1", "q")) == f"{BASE}/{ACCOUNT}/q"
    assert key_of_arn(f"arn:aws:sqs:us-east-1:{ACCOUNT}:q") == (ACCOUNT, "us-east-1", "q")
    assert key_of_arn(f"arn:aws:sns:us-east-1:{ACCOUNT}:q") is None
    assert key_of_arn("q") is None
