"""A report made by hand, with every part filled: what the page and the terminal are drawn from in tests."""

from __future__ import annotations

from cns_common.durations import DAY_MS, HOUR_MS
from cns_pipeline.period import Period
from cns_pipeline.reports.document import (
    Coverage,
    DeadLetter,
    Drop,
    Failure,
    Figures,
    LatencyBin,
    QueueRow,
    QueueTable,
    Recovery,
    Report,
    RetryBin,
    Row,
    Slow,
    Table,
    TimeBucket,
    Usage,
)

START_MS = 20_410 * DAY_MS  # 2025-11-18
ACCOUNT = "000000000000"
TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:orders"
OTHER_TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:audit"
QUEUE = f"arn:aws:sqs:us-east-1:{ACCOUNT}:orders-queue"
DEAD_LETTERS = f"arn:aws:sqs:us-east-1:{ACCOUNT}:orders-dead"
HOST = "shop.example.com"
SLOW_HOST = "slow.example.com:8443"
SHOP, SLOW, QUEUED = [f"{TOPIC}:00000000-0000-4000-8000-00000000000{number}" for number in (1, 2, 3)]

SHOP_FIGURES = Figures(
    attempts=900,
    attempts_failed=350,
    delivered=550,
    delivered_bytes=1_100_000,
    dead_lettered=40,
    dropped=8,
    retrying=2,
    success_share=550 / 598,
    p50_ms=12,
    p90_ms=4_000,
    p99_ms=61_000,
    p999_ms=61_000,
    max_ms=61_204,
)
SLOW_FIGURES = Figures(
    attempts=600,
    delivered=600,
    delivered_bytes=1_200_000,
    duplicates=3,
    success_share=1.0,
    p50_ms=2_100,
    p90_ms=2_900,
    p99_ms=3_400,
    p999_ms=3_500,
    max_ms=3_511,
)
QUEUE_FIGURES = Figures(
    attempts=600,
    delivered=600,
    delivered_bytes=600_000,
    success_share=1.0,
    p50_ms=3,
    p90_ms=5,
    p99_ms=9,
    p999_ms=14,
    max_ms=14,
    replay_attempts=50,
    replayed=50,
)
TOTALS = Figures(
    accepted=610,
    accepted_bytes=1_220_000,
    matched=1_800,
    filtered=120,
    pending=2,
    retrying=2,
    attempts=2_100,
    attempts_failed=350,
    delivered=1_750,
    delivered_bytes=2_900_000,
    dead_lettered=40,
    dropped=12,
    fanouts_dropped=1,
    duplicates=3,
    success_share=1_750 / 1_802,
    p50_ms=14,
    p90_ms=2_700,
    p99_ms=8_200,
    p999_ms=61_000,
    max_ms=61_204,
    replay_matched=50,
    replay_attempts=50,
    replayed=50,
)
BEFORE = Figures(
    accepted=580,
    accepted_bytes=1_150_000,
    matched=1_740,
    filtered=100,
    pending=0,
    attempts=1_745,
    attempts_failed=5,
    delivered=1_740,
    delivered_bytes=2_700_000,
    success_share=1.0,
    p50_ms=12,
    p90_ms=900,
    p99_ms=2_050,
    p999_ms=2_400,
    max_ms=2_411,
    replay_matched=0,
)


def _bucket(hour: int) -> TimeBucket:
    """An hour of an outage from 14:00 to 16:00."""
    failed = 175 if hour in (14, 15) else 0
    figures = Figures(
        accepted=25,
        accepted_bytes=50_000,
        matched=75,
        filtered=5,
        pending=0,
        attempts=73 + failed,
        attempts_failed=failed,
        delivered=73,
        delivered_bytes=120_000,
        dead_lettered=20 if failed else 0,
        success_share=73 / 93 if failed else 1.0,
        p50_ms=14,
        p90_ms=2_700 if failed else 900,
        p99_ms=61_000 if failed else 2_000,
        p999_ms=61_000 if failed else 2_400,
        max_ms=61_204 if failed else 2_411,
        replay_matched=0,
    )
    return TimeBucket(start_ms=START_MS + hour * HOUR_MS, span_ms=HOUR_MS, figures=figures)


SAMPLE = Report(
    period=Period(START_MS, START_MS + DAY_MS),
    made_at_ms=START_MS + DAY_MS + HOUR_MS,
    first_ms=START_MS + 17,
    last_ms=START_MS + DAY_MS - 21,
    coverage=Coverage(
        events=5_000, unknown=12, malformed=2, newer=1, malformed_files=("worker-1f-000000000001.jsonl",)
    ),
    totals=TOTALS,
    before=BEFORE,
    buckets=tuple([_bucket(hour) for hour in range(24)]),
    topics=Table(
        rows=(
            Row(name=TOPIC, figures=TOTALS, before=BEFORE),
            Row(
                name=OTHER_TOPIC, figures=Figures(accepted=10, accepted_bytes=20_000, matched=0, filtered=0, pending=0)
            ),
        ),
        left_out=3,
    ),
    subscriptions=Table(
        rows=(
            Row(name=SHOP, topic=TOPIC, protocol="https", endpoint=HOST, figures=SHOP_FIGURES),
            Row(name=SLOW, topic=TOPIC, protocol="https", endpoint=SLOW_HOST, figures=SLOW_FIGURES),
            Row(name=QUEUED, topic=TOPIC, protocol="sqs", endpoint=QUEUE, figures=QUEUE_FIGURES),
        )
    ),
    endpoints=Table(
        rows=(
            Row(name=HOST, protocol="https", figures=SHOP_FIGURES, before=Figures(attempts=580, delivered=580)),
            Row(name=SLOW_HOST, protocol="https", figures=SLOW_FIGURES),
            Row(name=QUEUE, protocol="sqs", figures=QUEUE_FIGURES),
        )
    ),
    protocols=Table(
        rows=(Row(name="https", figures=SHOP_FIGURES), Row(name="sqs", figures=QUEUE_FIGURES)),
    ),
    accounts=Table(rows=(Row(name=ACCOUNT, figures=TOTALS, before=BEFORE),)),
    days=Table(rows=(Row(name="2025-11-18", figures=TOTALS, before=BEFORE),)),
    queues=QueueTable(
        rows=(
            QueueRow(
                queue=QUEUE,
                sent=650,
                received=655,
                deleted=640,
                visible=8,
                in_flight=2,
                delayed=0,
                oldest_age_s=40,
            ),
            QueueRow(queue=DEAD_LETTERS, sent=0, received=0, deleted=0, moved_in=40),
        )
    ),
    retries=(
        RetryBin(attempts=0, dropped=4),
        RetryBin(attempts=1, delivered=1_600, dropped=8),
        RetryBin(attempts=2, delivered=100),
        RetryBin(attempts=3, delivered=50, dead_lettered=40),
    ),
    latency=(
        LatencyBin(from_ms=0, to_ms=1, deliveries=10),
        LatencyBin(from_ms=1, to_ms=2, deliveries=300),
        LatencyBin(from_ms=2, to_ms=4, deliveries=600),
        LatencyBin(from_ms=4, to_ms=8, deliveries=0),
        LatencyBin(from_ms=8, to_ms=16, deliveries=840),
    ),
    failures=(
        Failure(
            cause="status",
            status=503,
            phase="first",
            attempts=200,
            subscriptions=1,
            first_ms=START_MS + 14 * HOUR_MS,
            last_ms=START_MS + 15 * HOUR_MS + 1_200_000,
            reason="Service Unavailable <maintenance>",
        ),
        Failure(
            cause="timeout",
            status=0,
            phase="post-backoff",
            attempts=150,
            subscriptions=1,
            first_ms=START_MS + 14 * HOUR_MS + 60_000,
            last_ms=START_MS + 15 * HOUR_MS,
            reason="no answer within 15 s",
        ),
    ),
    dead_letters=(
        DeadLetter(cause="spent:status", queue=DEAD_LETTERS, messages=40, topic=TOPIC, endpoint=HOST, most=40),
    ),
    drops=(
        Drop(cause="spent:status", events=8, subscriptions=8, fanouts=0, topic=TOPIC, endpoint=HOST, most=7),
        Drop(cause="unanswerable_filter", events=1, subscriptions=4, fanouts=0, topic=TOPIC, most=4),
        Drop(cause="notification_lost", events=1, subscriptions=0, fanouts=1),
    ),
    slowest=(
        Slow(
            message_id="7f1b6a0e-0000-4000-8000-000000000001",
            topic=TOPIC,
            subscription=SHOP,
            since_publish_ms=61_204,
            attempts=3,
            at_ms=START_MS + 15 * HOUR_MS,
        ),
    ),
    recoveries=(
        Recovery(
            endpoint=HOST,
            failed_from_ms=START_MS + 14 * HOUR_MS,
            last_failed_ms=START_MS + 15 * HOUR_MS + 1_200_000,
            recovered_at_ms=START_MS + 15 * HOUR_MS + 1_260_000,
            failures=350,
        ),
        Recovery(
            endpoint=SLOW_HOST,
            failed_from_ms=START_MS + 20 * HOUR_MS,
            last_failed_ms=START_MS + 20 * HOUR_MS,
            recovered_at_ms=None,
            failures=1,
        ),
    ),
    usage=(
        Usage(
            account=ACCOUNT,
            day="2025-11-18",
            requests=620,
            errors=10,
            request_bytes=1_500_000,
            response_bytes=300_000,
            published=610,
            published_bytes=1_220_000,
            deliveries=1_803,
            delivered_bytes=2_900_000,
        ),
        Usage(account=ACCOUNT, day="2025-11-19", published=1, published_bytes=9),
        Usage(account="", day="2025-11-18", requests=3, errors=3, request_bytes=900, response_bytes=1_200),
    ),
)
