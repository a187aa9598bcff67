"""Input that no client of this project sends: each is refused, and none is answered with 500."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

HALF_PAIR = "\\ud800"
"""JSON's name of a character that no text can have."""


@pytest.mark.parametrize("region", ["eu x", "x:y", "\0", "r" * 65])
def test_what_no_signature_could_reach_is_not_made(http: httpx.Client, account: str, region: str) -> None:
    """The ARN of such a queue would be another's, or the queue could never be deleted."""
    made = http.post(f"/accounts/{account}/queues", params={"region": region}, json={"name": "q"})
    assert (made.status_code, made.json()["code"]) == (400, "InvalidRequest")


def test_an_empty_region_is_the_services_own(http: httpx.Client) -> None:
    assert http.get("/caller", params={"region": ""}).json()["region"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/queues", f'{{"name": "q", "tags": {{"a": "{HALF_PAIR}"}}}}'),
        ("/queues", f'{{"name": "{HALF_PAIR}"}}'),
        ("/topics", f'{{"name": "t", "attributes": {{"DisplayName": "{HALF_PAIR}"}}}}'),
        ("/permissions", f'{{"queue": "{HALF_PAIR}"}}'),
    ],
)
def test_half_a_surrogate_pair_is_refused(http: httpx.Client, account: str, path: str, body: str) -> None:
    refused = http.post(f"/accounts/{account}{path}", content=body, headers={"content-type": "application/json"})
    assert refused.status_code == 400, refused.text


def test_a_token_names_a_queue_that_can_be(http: httpx.Client, account: str) -> None:
    body: dict[str, Any] = {"queue": "q" * 10_000}
    assert http.post(f"/accounts/{account}/permissions", json=body).status_code == 400


@pytest.mark.parametrize("levels", [["ReadMessage"] * 500, ["x" * 10_000]])
def test_a_token_is_no_longer_than_those_that_are_read(http: httpx.Client, levels: list[str]) -> None:
    refused = http.post("/tokens", json={"levels": levels})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidRequest")


@pytest.mark.parametrize("credentials", [b"\xe9", base64.b64encode(b"\xf0"), b"="])
def test_credentials_of_http_basic_that_are_none(nobody: httpx.Client, credentials: bytes) -> None:
    refused = nobody.get("/caller", headers={b"authorization": b"Basic " + credentials})
    assert refused.status_code == 401, refused.text


def test_a_wrong_method_is_told_the_right_ones(http: httpx.Client, account: str) -> None:
    refused = http.patch(f"/accounts/{account}/queues")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")
    assert "the header Allow" in refused.json()["detail"]


def test_a_body_that_is_not_said_to_be_json(http: httpx.Client, account: str) -> None:
    """curl -d says that it is a form."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    refused = http.post(f"/accounts/{account}/queues", content='{"name": "q"}', headers=form)
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidRequest")
    assert "Content-Type: application/json" in refused.json()["detail"]
