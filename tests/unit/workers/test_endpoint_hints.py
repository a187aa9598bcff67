"""Hints of the pipeline: an endpoint that was unhealthy of late gets fewer first sends, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from structlog.testing import capture_logs

from cns.endpoints.outcome import Cause, Delivered, Failed
from cns_common.clock import Clock
from cns_common.endpoint_health import EndpointHealth, UnhealthyEndpoint, encode_endpoint_health
from cns_workers.delivery.traffic.endpoint_hints import HINT_AGE_MAX_MS, EndpointHints, Hint
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits, EndpointState

NOW_MS = 1_800_000_000_000
ACCOUNT = "000000000000"
LIMITS = EndpointLimits(sends=12, sends_fast=100, failures=20)


class SetClock(Clock):
    """Real time as the test sets it."""

    def __init__(self, at_ms: int = NOW_MS) -> None:
        super().__init__()
        self.at_ms = at_ms

    def real_ms(self) -> int:
        return self.at_ms


def write(file: Path, *endpoints: tuple[str, Literal["failing", "slow"]], until_ms: int = NOW_MS) -> None:
    health = EndpointHealth(
        made_at_ms=until_ms,
        observed_from_ms=until_ms - 3_600_000,
        observed_until_ms=until_ms,
        observed=10,
        unhealthy=tuple(
            [
                UnhealthyEndpoint(endpoint=name, state=state, since_ms=until_ms - 1, attempts=20, failed=19)
                for name, state in endpoints
            ]
        ),
    )
    file.write_bytes(encode_endpoint_health(health))


QUEUE = f"arn:aws:sqs:us-east-1:{ACCOUNT}:q"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        (f"{ACCOUNT} https://shop.example.com/orders?x=1", "failing"),
        (f"{ACCOUNT} https://SHOP.example.com:443/other", "failing"),
        (f"{ACCOUNT} http://shop.example.com:8080/", "slow"),
        (f"{ACCOUNT} redis://user:secret@cache:6379/0/channel", "slow"),
        (f"{ACCOUNT} {QUEUE}", "failing"),
        (f"{ACCOUNT} https://well.example.com/", None),
        (f"{ACCOUNT} https://[not-an-address/", None),
        ("mail", None),
        ("gateway", None),
    ],
)
async def test_a_hint_is_about_the_host_that_events_name(tmp_path: Path, key: str, hint: Hint | None) -> None:
    file = tmp_path / "endpoints.json"
    write(
        file, ("shop.example.com", "failing"), ("shop.example.com:8080", "slow"), ("cache", "slow"), (QUEUE, "failing")
    )
    hints = EndpointHints(file, SetClock())
    assert hints.find(key) is None  # not read yet
    await hints.read()
    assert hints.find(key) == hint


@pytest.mark.parametrize(("off_ms", "kept"), [(0, True), (HINT_AGE_MAX_MS, True), (HINT_AGE_MAX_MS + 1, False)])
@pytest.mark.parametrize("direction", [1, -1])
async def test_stale_hints_are_ignored(tmp_path: Path, off_ms: int, kept: bool, direction: int) -> None:
    """One from the future, too: it would hold for ever."""
    file = tmp_path / "endpoints.json"
    write(file, (QUEUE, "failing"))
    hints = EndpointHints(file, SetClock(NOW_MS + direction * off_ms))
    await hints.read()
    assert (hints.find(f"{ACCOUNT} {QUEUE}") is not None) is kept


async def test_a_file_that_is_missing_or_broken_is_no_hint(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.json"
    hints = EndpointHints(file, SetClock())
    key = f"{ACCOUNT} {QUEUE}"
    with capture_logs() as logs:
        await hints.read()
        write(file, (QUEUE, "slow"))
        await hints.read()
        assert hints.find(key) == "slow"
        file.write_bytes(file.read_bytes()[:-5])
        await hints.read()
        await hints.read()
        assert hints.find(key) is None
        write(file)
        await hints.read()
        assert hints.find(key) is None
    assert [one["event"] for one in logs] == ["endpoint_hints.read_failed"]
    await EndpointHints(None, SetClock()).read()


DOWN = Failed(Cause.STATUS, "HTTP 503", 5, status=503)
TOOK = Delivered(200, 5)


def sent(endpoint: EndpointState, outcome: Delivered | Failed, number: int) -> None:
    endpoint.start()
    endpoint.end(outcome, f"m{number}", 0.0, was_overdue=False, probe=endpoint.breaker.is_open)


@pytest.mark.parametrize(("hint", "sends", "failures"), [(None, 12, 20), ("slow", 3, 20), ("failing", 3, 5)])
def test_the_first_limits_of_an_endpoint(hint: Hint | None, sends: int, failures: int) -> None:
    endpoint = EndpointState(LIMITS, hint)
    assert endpoint.room(0.0, scarce=False) == sends
    for number in range(failures - 1):
        sent(endpoint, DOWN, number)
    assert not endpoint.breaker.is_open
    sent(endpoint, DOWN, failures)
    assert endpoint.breaker.is_open


def test_a_hint_ends_with_the_first_message_taken() -> None:
    endpoint = EndpointState(LIMITS, "failing")
    for number in range(3):
        sent(endpoint, TOOK, number)
    assert endpoint.room(0.0, scarce=False) == 12
    for number in range(19):
        sent(endpoint, DOWN, number)
    assert not endpoint.breaker.is_open


def test_a_breaker_that_is_off_stays_off() -> None:
    endpoint = EndpointState(EndpointLimits(sends=1, failures=0), "failing")
    for number in range(50):
        sent(endpoint, DOWN, number)
    assert (endpoint.breaker.is_open, endpoint.room(0.0, scarce=False)) == (False, 1)
