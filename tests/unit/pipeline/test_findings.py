"""Findings of a report: each fault once, the heaviest first; none without a fault."""

from __future__ import annotations

import msgspec
import pytest

from cns_pipeline.health.document import Health
from cns_pipeline.reports.document import Coverage, Drop, Figures, Report, Usage
from cns_pipeline.reports.findings.find import find
from cns_pipeline.reports.text import milliseconds, plain, share, short_arn, span
from tests.pipeline.audit.sample_audit import SAMPLE_AUDIT
from tests.pipeline.health.sample_health import OUTAGE, SAMPLE_HEALTH, SLOWNESS
from tests.pipeline.reports.sample_report import SAMPLE, START_MS, TOPIC

FIGURES = Figures(
    accepted=5_000,
    matched=10_000,
    pending=15,
    attempts=10_050,
    attempts_failed=50,
    delivered=9_985,
    p50_ms=12,
    p99_ms=900,
)
CLEAN = Report(
    period=SAMPLE.period,
    made_at_ms=SAMPLE.made_at_ms,
    coverage=Coverage(events=30_000),
    totals=FIGURES,
    before=msgspec.structs.replace(FIGURES, accepted=4_000, p99_ms=850, p50_ms=9),
    drops=(
        Drop(cause="subscription_gone", events=3, subscriptions=3, fanouts=0),
        Drop(cause="permanent:opted_out", events=1, subscriptions=1, fanouts=0),
    ),
    usage=(Usage(account="000000000000", day="2025-11-18", requests=5_000, errors=99),),
)
HEALTHY = msgspec.structs.replace(SAMPLE_HEALTH, incidents=())


def found(report: Report = CLEAN, health: Health | None = HEALTHY) -> list[str]:
    return [str(one) for one in find(report, health)]


def test_every_fault_of_a_bad_day_in_order_of_weight() -> None:
    assert found(SAMPLE, SAMPLE_HEALTH) == [
        "8 notifications dropped: all attempts are spent: "
        "the endpoint answered with an error (spent:status); 7 of orders → shop.example.com",
        "4 notifications dropped: unanswerable_filter; all of orders",
        "1 whole fan-out dropped: the stored message was lost (notification_lost)",
        "shop.example.com failed 43.1% of 813 attempts (usually 0.2%) from 14:00 to 15:20 on 18 Nov, mostly: "
        "status 503",
        "40 notifications moved to orders-dead: all attempts are spent: "
        "the endpoint answered with an error (spent:status); all of orders → "
        "shop.example.com",
        "slow.example.com:8443 took 2.1 s to answer (median), 15× its usual 140 ms, from 09:00 to 11:00 on 18 Nov",
        "Delivery (p99 from publish) took 8.2 s, 4× the 2 s of the week before",
        "12 events missing: the report lacks what they recorded",
        "2 lines kept aside as no events (in worker-1f-000000000001.jsonl)",
        "1 line of a newer version of the service, kept aside: upgrade the pipeline",
    ]


def test_nothing_on_a_clean_day() -> None:
    assert found() == []
    assert found(health=None) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pending": 120}, "120 deliveries not ended at the end of the period: 1.2% of those that were to be made"),
        ({"duplicates": 10}, "10 deliveries repeated: the subscription had the message already"),
        ({"accepted": 2_000}, "2,000 messages published, 50% fewer than the 4,000 of the week before"),
        ({"p50_ms": 200}, "Delivery (p50 from publish) took 200 ms, 22× the 9 ms of the week before"),
    ],
)
def test_one_fault_alone(change: dict[str, int], said: str) -> None:
    assert found(msgspec.structs.replace(CLEAN, totals=msgspec.structs.replace(FIGURES, **change))) == [said]


def test_refused_requests_of_an_account_add_up_over_days() -> None:
    usage = [Usage(account="1", day=day, requests=500, errors=60) for day in ("2025-11-18", "2025-11-19")]
    assert found(msgspec.structs.replace(CLEAN, usage=tuple(usage))) == [
        "Account 1 got errors for 12% of 1,000 requests"
    ]


def test_repeats_name_the_subscription_that_has_most_of_them() -> None:
    totals = msgspec.structs.replace(FIGURES, duplicates=12)
    report = msgspec.structs.replace(CLEAN, totals=totals, subscriptions=SAMPLE.subscriptions)
    assert found(report) == [
        "12 deliveries repeated: the subscription had the message already; 3 of orders → slow.example.com:8443"
    ]


def test_many_failing_endpoints_are_counted() -> None:
    """When the network fails, all endpoints do."""
    failing = [
        msgspec.structs.replace(OUTAGE, endpoint=f"e{number}", failed=500 - number, expected_share=None)
        for number in range(40)
    ]
    said = found(health=msgspec.structs.replace(HEALTHY, incidents=(*failing, SLOWNESS)))
    assert len(said) == 12
    assert said[0].startswith("e0 failed 61.5% of 813 attempts from 14:00")
    assert said[10] == "30 more endpoints failed as well"
    assert said[11].startswith("slow.example.com:8443 took 2.1 s")


def test_errors_of_the_audit_come_first_and_its_notes_stay_there() -> None:
    found = [(one.severity.name, str(one)) for one in find(CLEAN, HEALTHY, SAMPLE_AUDIT)]
    assert found == [
        ("LOST", "Queue orders-queue: 2 of 1,000 messages were lost"),
        ("UNSURE", "Audit: 40 events are missing"),
    ]


def test_numbers_as_a_person_reads_them() -> None:
    assert [share(one) for one in (None, 0.0, 0.00001, 0.0234, 0.43, 0.5, 0.99995, 1.0)] == [
        "–", "0%", "< 0.01%", "2.34%", "43%", "50%", "> 99.99%", "100%",
    ]  # fmt: skip
    assert [milliseconds(one) for one in (0, 999, 1_000, 61_204, 120_000, 7_199_000, 7_200_000, 172_800_000)] == [
        "0 ms", "999 ms", "1 s", "61.2 s", "2 min", "120 min", "2 h", "2 d",
    ]  # fmt: skip
    assert span(START_MS, START_MS + 60_000) == "from 00:00 to 00:01 on 18 Nov"
    assert span(START_MS - 60_000, START_MS) == "from 23:59 on 17 Nov to 00:00 on 18 Nov"
    assert (short_arn(TOPIC), short_arn(f"{TOPIC}:12345678-abcd"), short_arn("host:443")) == (
        "orders", "orders:12345678", "host:443",
    )  # fmt: skip


def test_foreign_text_cannot_command_a_terminal_or_turn_a_line_round() -> None:
    assert plain("a\x1b[31m\u202eb\x00\r\nü€") == "a\ufffd[31m\ufffdb\ufffd\ufffd\ufffdü€"
    assert plain("x" * 500) == "x" * 399 + "…"
