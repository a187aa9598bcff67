"""The contents of LocalStack's health page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns_server.health import ServiceHealth
from cns_server.localstack.health import HealthBoard, read_action

READY = ServiceHealth("yellow", ready=True)
RUNNING = {"sns": "running", "sqs": "running", "sts": "running"}


def shown_after(*puts: object) -> dict[str, Any]:
    board = HealthBoard()
    for put in puts:
        assert board.put(json.dumps(put).encode())
    shown = board.to_page(READY)
    assert (shown.pop("edition"), shown.pop("version")) == ("community", "4.0.0")
    return shown


@pytest.mark.parametrize(
    ("puts", "shown"),
    [
        ([], {}),
        ([{}], {}),
        ([{"a": "x"}], {"a": "x"}),
        ([{"a": "x"}, {"a": "y"}], {"a": "y"}),
        ([{"a:b": "x"}, {"a:c": 1}], {"a": {"b": "x", "c": 1}}),
        ([{"a": {"b": "x"}}, {"a:c": [True, None]}], {"a": {"b": "x", "c": [True, None]}}),
        ([{"a": "x"}, {"a:b": "y"}], {"a": {"b": "y"}}),
        ([{"features:initScripts": "initialized"}], {"features": {"initScripts": "initialized"}}),
    ],
)
def test_put(puts: list[object], shown: dict[str, Any]) -> None:
    assert shown_after(*puts) == {"services": RUNNING, **shown}


def test_a_service_that_was_put_stands_beside_ours() -> None:
    assert shown_after({"services:mine": "running"})["services"] == RUNNING | {"mine": "running"}


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"a":{"b":{"c":{"d":1}}}}',
        b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        json.dumps({":".join("a" * 9): 1}).encode(),
        json.dumps({"a": "x" * 70_000}).encode(),
    ],
)
def test_put_refused(body: bytes | None) -> None:
    board = HealthBoard()
    assert not board.put(body)
    assert board.to_page(READY)["services"] == RUNNING


def test_what_is_put_is_bounded_as_a_whole() -> None:
    board = HealthBoard()
    puts = [json.dumps({str(n): "x" * 10_000}).encode() for n in range(10)]
    assert [board.put(put) for put in puts].index(False) == 6


def test_what_is_not_ready_starts() -> None:
    services = HealthBoard().to_page(ServiceHealth("red", ready=False))["services"]
    assert services == dict.fromkeys(RUNNING, "starting")


@pytest.mark.parametrize(
    ("body", "action"),
    [
        (b'{"action":"restart"}', "restart"),
        (b'{"other":1}', ""),
        (b'{"action":7}', ""),
        (b"{}", None),
        (b"kill", None),
        (None, None),
    ],
)
def test_actions(body: bytes | None, action: str | None) -> None:
    assert read_action(body) == action
