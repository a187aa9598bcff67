"""Rows and figures that the pages make from the latest events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi import Request
from msgspec.structs import replace

from cns_common.events.recent_events import AccountEvent
from cns_common.events.schema import PublishAccepted
from cns_server.pages.rendering import Templates
from cns_server.pages.views import activity
from tests.unit.pages.test_portal_deliveries import SUBSCRIPTION, TOPIC, attempted, dead, delivered

ACCEPTED = PublishAccepted(
    at_ms=1_000, message_id="m", topic=TOPIC, account="1", size_bytes=1, has_subject=False, jobs=1, matched=1
)
LATE = replace(delivered(436_000, 3), since_publish_ms=435_001)


@pytest.mark.parametrize(
    ("events", "published_ms"),
    [
        ([ACCEPTED, attempted(5_000, 1, "timeout"), LATE], 1_000),
        ([attempted(5_000, 1, "timeout"), LATE], 999),  # older events are not read: by the delivery
        ([attempted(5_000, 1, "timeout"), dead(9_000)], 8_100),
        ([attempted(5_000, 1, "timeout")], 0),  # unknown, and not the attempt's time
        ([replace(delivered(436_000, 3, replayed=True), since_publish_ms=435_001)], 999),
    ],
)
@pytest.mark.parametrize("subscription", ["", SUBSCRIPTION.arn])
def test_published_is_when_it_was_published(events: list[AccountEvent], published_ms: int, subscription: str) -> None:
    (row,) = activity.messages(events, TOPIC, subscription)
    assert row.published_ms == published_ms


def shown(template: str, **values: Any) -> str:
    scope = {"type": "http", "path": "/ui/x", "query_string": b"", "headers": [], "server": ("h", 80)}
    principal = SimpleNamespace(operator=False)
    session = MagicMock(principal=principal, account="1", region="r", form_token="t")
    page = Templates("1").page(Request({**scope, "method": "GET"}), template, session, **values)
    return bytes(page.body).decode()


@pytest.mark.parametrize(
    ("since_ms", "period"), [(0, "From all events on this machine"), (5_000, "Since 1970-01-01 00:00:05 UTC")]
)
def test_tiles_name_their_period_and_show_long_times_in_minutes(since_ms: int, period: str) -> None:
    figures = activity.ActivityFigures(1, 0, 1, 0, 358_733, 42)
    page = shown("deliveries.html", figures=figures, rows=[], by="topic", groups=("topic",), since_ms=since_ms)
    assert "358733" not in page and "5 min 58 s" in page and "42 ms" in page
    assert page.index(period) < page.index("Latency p50") < page.index("No attempt failed")


def test_backticks_become_code_and_nothing_else_becomes_markup() -> None:
    page = shown("failure.html", title="T", detail="`cns <b>` and `one")
    assert "<code>cns &lt;b&gt;</code> and `one" in page
