"""From calls by boto3 to the report, whose numbers are compared with the test's own account."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from cns_pipeline.paths import PipelinePaths
from cns_pipeline.report import report
from tests.acceptance.endpoints import Endpoint
from tests.acceptance.running import Up, running
from tests.acceptance.topics import Topic, arn_of, queue_for
from tests.parts import need
from tests.pipeline.jobs import job
from tests.waiting import wait_until

SINGLY, IN_A_BATCH = 7, 3
MESSAGES = SINGLY + IN_A_BATCH
RETRIES = 2
FLAKY_FAILURES = 2
DONE_S = 60.0
COUNTS = ("accepted", "attempts", "attempts_failed", "delivered", "dead_lettered", "dropped")

Counted = dict[tuple[str, str], tuple[int, ...]]

pytestmark = pytest.mark.timeout(600)  # up to three Java processes, also on a busy machine


class Ingested(NamedTuple):
    """Data whose events were ingested by `cns pipeline ingest`, the expected report, and the command's output."""

    data: Path
    counted: Counted
    events: int
    output: str


@pytest.fixture(scope="module")
def ingested(receiver: str, tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    need("java")
    data = tmp_path_factory.mktemp("service") / "data"
    with running(data) as service:
        counted = make_traffic(service, receiver)
        written = service.metric("cns_events_written_total")
        assert service.metric("cns_events_lost_total") == 0
    done = job("cns", "pipeline", "ingest", "--data", data)
    assert done.returncode == 0, done.stderr
    return Ingested(data, counted, int(written), done.stdout)


@pytest.mark.slice
def test_the_report_has_the_numbers_that_the_test_kept(ingested: Ingested) -> None:
    reported = job("cns", "pipeline", "report", "--data", ingested.data)
    assert reported.returncode == 0, reported.stderr
    with (ingested.data / "pipeline" / "reports" / "deliveries.csv").open(newline="") as table:
        of_csv = list(csv.DictReader(table))
    lines = (ingested.data / "pipeline" / "reports" / "deliveries.jsonl").read_text().splitlines()
    of_json = [json.loads(line) for line in lines]
    assert counts_of(of_csv) == counts_of(of_json) == ingested.counted
    for row in of_json:
        check_figures(row)
    assert f"{ingested.events} events, 0 unknown" in reported.stdout
    assert "0 malformed" in reported.stdout


def test_spark_submit_does_the_same(ingested: Ingested, spark: SparkSession, out: Path) -> None:
    submitted = job("spark-submit", "cns_pipeline/jobs/ingest.py", "--data", ingested.data, "--out", out)
    assert submitted.returncode == 0, submitted.stderr
    assert submitted.stdout.replace(str(out), str(ingested.data / "pipeline")) == ingested.output
    assert counts_of(report(spark, PipelinePaths(out), 40).top) == ingested.counted


def make_traffic(service: Up, receiver: str) -> Counted:
    """The expected report, by topic and subscription."""
    sns, sqs = service.client("sns"), service.client("sqs")
    busy, quiet = [Topic(sns, str(sns.create_topic(Name=name)["TopicArn"])) for name in ("busy", "quiet")]
    endpoints = {name: Endpoint(receiver) for name in ("good", "flaky", "dead", "refusing")}
    endpoints["flaky"].behave(status=500, times=FLAKY_FAILURES)
    endpoints["dead"].behave(status=500)
    endpoints["refusing"].behave(status=404)
    policy = {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": RETRIES, "numNoDelayRetries": RETRIES}
    terms = {"DeliveryPolicy": json.dumps({"healthyRetryPolicy": policy})}
    dead_letters = busy.dead_letters_to(arn_of(sqs, queue_for(sqs, busy.arn)))
    arns = {
        name: busy.subscribe("http", endpoint.url, **terms, **(dead_letters if name == "dead" else {}))
        for name, endpoint in endpoints.items()
    }
    arns["queue"] = busy.subscribe("sqs", arn_of(sqs, queue_for(sqs, busy.arn)))

    for number in range(SINGLY):
        busy.publish(str(number))
    entries = [{"Id": str(number), "Message": str(number)} for number in range(IN_A_BATCH)]
    sns.publish_batch(TopicArn=busy.arn, PublishBatchRequestEntries=[*entries, {"Id": "refused", "Message": ""}])
    quiet.publish("nobody listens")
    with pytest.raises(sns.exceptions.InvalidParameterException):
        busy.publish("")

    ends = {
        ("deliveries", "http"): 2 * MESSAGES + len(endpoints),  # with their confirmations
        ("deliveries", "sqs"): MESSAGES,
        ("notifications_dead_lettered", ""): MESSAGES,
        ("notifications_dropped", ""): MESSAGES,
    }
    wait_until(lambda: seen(service, ends) == ends, DONE_S, lambda: str(seen(service, ends)))
    return {
        (busy.arn, arns["good"]): (MESSAGES, MESSAGES, 0, MESSAGES, 0, 0),
        (busy.arn, arns["queue"]): (MESSAGES, MESSAGES, 0, MESSAGES, 0, 0),
        (busy.arn, arns["flaky"]): (MESSAGES, MESSAGES + FLAKY_FAILURES, FLAKY_FAILURES, MESSAGES, 0, 0),
        (busy.arn, arns["dead"]): (MESSAGES, (1 + RETRIES) * MESSAGES, (1 + RETRIES) * MESSAGES, 0, MESSAGES, 0),
        (busy.arn, arns["refusing"]): (MESSAGES, MESSAGES, MESSAGES, 0, 0, MESSAGES),
        (quiet.arn, ""): (1, 0, 0, 0, 0, 0),
    }


def seen(service: Up, ends: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], float]:
    return {
        (name, protocol): service.metric(f"cns_{name}_total", **({"protocol": protocol} if protocol else {}))
        for name, protocol in ends
    }


def counts_of(rows: list[dict[str, Any]]) -> Counted:
    return {(row["topic"], row["subscription"] or ""): tuple(int(row[name]) for name in COUNTS) for row in rows}


def check_figures(row: dict[str, Any]) -> None:
    ended = row["delivered"] + row["dead_lettered"] + row["dropped"]
    assert row["success_share"] == (row["delivered"] / ended if ended else None)
    if row["delivered"]:
        assert 0 <= row["p50_ms"] <= row["p99_ms"] < DONE_S * 1000
    else:
        assert row["p50_ms"] is row["p99_ms"] is None
