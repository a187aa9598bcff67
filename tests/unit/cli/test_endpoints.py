"""`cns endpoints`: the unhealthy endpoints of the last observation, or one line that says why none are shown."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from cns_cli.delivery.endpoints import endpoints
from cns_common.durations import HOUR_MS
from cns_common.endpoint_health import EndpointHealth, UnhealthyEndpoint, encode_endpoint_health
from cns_common.errors import StartError
from cns_pipeline.health.labels import endpoint_lines, health_lines
from tests.pipeline.health.sample_health import SAMPLE_HEALTH
from tests.pipeline.reports.sample_report import START_MS

DOWN = UnhealthyEndpoint(
    endpoint="shop.example.com\x1b[2J",
    state="failing",
    since_ms=START_MS,
    attempts=200,
    failed=86,
    expected_share=0.002,
    p50_ms=10,
    expected_p50_ms=10,
    cause="status",
    status=503,
)
SLOW = UnhealthyEndpoint(
    endpoint="slow.example.com",
    state="slow",
    since_ms=START_MS,
    attempts=9,
    failed=0,
    p50_ms=2_100,
    expected_p50_ms=140,
)
NEW = UnhealthyEndpoint(
    endpoint="new.example.com", state="failing", since_ms=START_MS, attempts=5, failed=5, cause="timeout"
)
HEALTH = EndpointHealth(
    made_at_ms=START_MS + HOUR_MS + 5,
    observed_from_ms=START_MS,
    observed_until_ms=START_MS + HOUR_MS,
    observed=40,
    unhealthy=(DOWN, SLOW, NEW),
)


def test_unhealthy_endpoints_in_words() -> None:
    assert endpoint_lines(HEALTH, START_MS + HOUR_MS + 300_000) == [
        "40 endpoints observed from 2025-11-18 00:00 to 2025-11-18 01:00 UTC (5 min ago): 3 unhealthy",
        "failing  shop.example.com\ufffd[2J  43% of 200 attempts failed, usually 0.2%; mostly: status 503",
        "slow     slow.example.com  2.1 s to answer (median), usually 140 ms",
        "failing  new.example.com  100% of 5 attempts failed; mostly: the endpoint did not answer in time",
    ]


def test_what_the_health_job_says() -> None:
    first, *found = health_lines(SAMPLE_HEALTH)
    assert first.startswith("3 endpoints from 00:00 on 18 Nov to 00:00 on 19 Nov UTC, judged by 21 days of history")
    assert [line.split()[0] for line in found] == ["shop.example.com", "slow.example.com:8443"]
    unseen = msgspec.structs.replace(SAMPLE_HEALTH, endpoints=0, incidents=())
    assert health_lines(unseen)[1:] == ["no attempts in this period"]


def test_the_command_prints_lines_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "health" / "endpoints.json"
    file.parent.mkdir()
    file.write_bytes(encode_endpoint_health(HEALTH))
    endpoints(out=tmp_path)
    assert len(capsys.readouterr().out.splitlines()) == 4
    endpoints(out=tmp_path, json=True)
    assert json.loads(capsys.readouterr().out)["unhealthy"][1]["p50_ms"] == 2_100


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"x":' + b"[" * 9_999 + b"]" * 9_999 + b"}"])
def test_a_missing_or_broken_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "health" / "endpoints.json"
    if content is not None:
        file.parent.mkdir()
        file.write_bytes(content)
    said = "run `cns pipeline health`" if content is None else "cannot be read"
    with pytest.raises(StartError, match=said) as raised:
        endpoints(out=tmp_path)
    assert "\n" not in str(raised.value)
