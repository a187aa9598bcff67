"""From traffic of every kind to the report: each figure of each table is the test's own count."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cns_cli.main import app
from cns_common.events.schema import DeliveryDelivered, Event, SegmentOpened, SegmentSealed
from cns_pipeline.location import located
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import EVERYTHING
from cns_pipeline.quick.figures import quick_report
from cns_pipeline.reports.document import Figures, Report
from cns_pipeline.reports.files import ReportFiles
from cns_pipeline.reports.report import make_report, read_for_report
from cns_pipeline.storage import Storage
from tests.pipeline.conftest import TrafficData
from tests.pipeline.jobs import job
from tests.pipeline.ledger import Ledger, QueueUse, SubscriptionCounts
from tests.pipeline.reports.report_oracle import nearest_rank

TIMES = ("success_share", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
OF_TOPICS = ("accepted", "accepted_bytes", "matched", "filtered", "pending", "replay_matched")

pytestmark = pytest.mark.timeout(3_000)  # Java processes, also on a busy machine


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The report that `cns pipeline report` wrote into a directory, and what it printed."""

    report: Report
    directory: Path
    text: str


@pytest.fixture(scope="module")
def reported(served: TrafficData, spark: SparkSession) -> WrittenReport:
    """The commands use the session that is open: a start of Spark takes as much time as both."""
    command("pipeline", "ingest", "--data", served.data)
    text = command("pipeline", "report", "--data", served.data)
    directory = served.data / "pipeline" / "reports" / "all"
    return WrittenReport(read_report(directory), directory, text)


def command(*words: str | Path) -> str:
    """Run a command of `cns` in this process. Returns what it printed."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def read_report(directory: Path) -> Report:
    return msgspec.json.decode((directory / "report.json").read_bytes(), type=Report)


@pytest.mark.slice
def test_every_figure_is_the_count_that_the_test_kept(served: TrafficData, reported: WrittenReport) -> None:
    report, ledger = reported.report, served.ledger
    assert (report.coverage.events, report.coverage.unknown, report.coverage.malformed) == (served.events, 0, 0)
    check_tables(report, ledger)
    check_details(report, ledger)
    check_times(report, served)
    check_files(reported)


@pytest.mark.slice
def test_the_quick_report_has_the_same_figures(served: TrafficData, reported: WrittenReport) -> None:
    quick, report = quick_report(PipelinePaths(served.data / "pipeline"), EVERYTHING, 0), reported.report
    for table in ("totals", "before", "topics", "subscriptions", "endpoints", "protocols", "accounts", "first_ms"):
        assert getattr(quick, table) == getattr(report, table), table
    assert quick.coverage.events == report.coverage.events


def test_spark_submit_does_the_same(
    served: TrafficData, reported: WrittenReport, spark: SparkSession, out: Path
) -> None:
    submitted = job("spark-submit", "cns_cli/pipeline/command.py", "ingest", "--data", served.data, "--out", out)
    assert submitted.returncode == 0, submitted.stderr
    events = read_for_report(spark, PipelinePaths(out), EVERYTHING)
    files = ReportFiles(Storage(spark), located(out / "again"))
    again = make_report(events, EVERYTHING, files, reported.report.made_at_ms)
    assert again == reported.report


# -- tables of figures ------------------------------------------------------------------------------------------------


def check_tables(report: Report, ledger: Ledger) -> None:
    expected = total(ledger)
    assert counts(report.totals) == expected
    assert report.before is None
    assert {row.name: counts(row.figures) for row in report.topics.rows} == {
        topic: of_topic(ledger, topic) for topic in ledger.topics
    }
    assert {row.name: counts(row.figures) for row in report.accounts.rows} == {ledger.account: expected}
    assert added([row.figures for row in report.days.rows]) == expected
    assert added([bucket.figures for bucket in report.buckets]) == expected
    found = {(row.topic, row.name, row.protocol, row.endpoint): row.figures for row in report.subscriptions.rows}
    assert {key: counts(figures) for key, figures in found.items()} == by(
        ledger, lambda one: (one.topic, one.subscription, one.protocol, one.endpoint) if one.subscription else None
    )
    endpoints = {(row.name, row.protocol): counts(row.figures) for row in report.endpoints.rows}
    assert endpoints == by(ledger, lambda one: (one.endpoint, one.protocol))
    assert {row.name: counts(row.figures) for row in report.protocols.rows} == by(ledger, lambda one: one.protocol)


def counts(figures: Figures) -> dict[str, int]:
    """The figures that are counts, without those that are not known or 0."""
    known = {name: getattr(figures, name) for name in Figures.__struct_fields__ if name not in TIMES}
    return {name: value for name, value in known.items() if value}


def added(rows: Iterable[Figures]) -> dict[str, int]:
    sums = Counter[str]()
    for figures in rows:
        sums.update(counts(figures))
    return dict(sums)


def by(ledger: Ledger, key_of: Callable[[SubscriptionCounts], Hashable]) -> dict[Hashable, dict[str, int]]:
    """The counts by key. A key without a match has no event, and no row."""
    keys = {key_of(one) for one in ledger.deliveries} - {None}
    rows = {key: of_targets([one for one in ledger.deliveries if key_of(one) == key]) for key in keys}
    return {key: row for key, row in rows.items() if row}


def of_targets(deliveries: Iterable[SubscriptionCounts]) -> dict[str, int]:
    sums = Counter[str]()
    for one in deliveries:
        for name in ("attempts", "attempts_failed", "delivered", "dead_lettered", "dropped", "replayed"):
            sums[name] += getattr(one, name)
        sums["delivered_bytes"] += one.size_bytes
        sums["replay_attempts"] += one.replayed
    return {name: value for name, value in sums.items() if value}


def of_topic(ledger: Ledger, topic: str) -> dict[str, int]:
    published, own = ledger.topics[topic], [one for one in ledger.deliveries if one.topic == topic]
    sums = Counter(of_targets(own))
    sums["accepted"] = published.accepted
    sums["accepted_bytes"] = published.accepted_bytes
    sums["filtered"] = published.filtered
    sums["matched"] = sum([one.matched for one in own])
    sums["replay_matched"] = sum([one.replayed for one in own])
    sums["dropped"] += published.unanswerable
    return {name: value for name, value in sums.items() if value}


def total(ledger: Ledger) -> dict[str, int]:
    sums = Counter[str]()
    for topic in ledger.topics:
        sums.update(of_topic(ledger, topic))
    return dict(sums)


# -- other tables -----------------------------------------------------------------------------------------------------


def check_details(report: Report, ledger: Ledger) -> None:
    failures = Counter({(one.cause, one.status, one.phase): one.attempts for one in report.failures})
    assert failures == ledger.failures
    assert Counter({one.cause: one.subscriptions for one in report.drops}) == ledger.drops
    assert Counter({(one.cause, one.queue): one.messages for one in report.dead_letters}) == ledger.dead_letters
    ends = ("delivered", "dead_lettered", "dropped")
    retries = {(end, one.attempts): getattr(one, end) for one in report.retries for end in ends if getattr(one, end)}
    assert Counter(retries) == ledger.ended_after
    assert sum([one.failures for one in report.recoveries]) == ledger.total("attempts_failed")
    check_usage(report, ledger)
    used = {arn: use for arn, use in ledger.queues.items() if use != QueueUse()}
    assert {row.queue for row in report.queues.rows} == used.keys()
    for row in report.queues.rows:
        found = QueueUse(
            sent=row.sent, received=row.received, deleted=row.deleted, moved_in=row.moved_in, moved_out=row.moved_out
        )
        assert (found, (row.visible, row.in_flight, row.delayed)) == (used[row.queue], ledger.depths[row.queue])


def check_usage(report: Report, ledger: Ledger) -> None:
    """The owner's, and that of the calls without an account: confirmations."""
    names = [name for name in report.usage[0].__struct_fields__ if name not in ("account", "day")]
    sums: dict[str, Counter[str]] = {"": Counter(), ledger.account: Counter()}
    for row in report.usage:
        sums[row.account].update({name: getattr(row, name) or 0 for name in names})
    requests = ledger.requests.values()
    assert sums[ledger.account] == {
        "requests": sum([one.requests for one in requests]),
        "errors": sum([one.errors for one in requests]),
        "request_bytes": sum([one.request_bytes for one in requests]),
        "response_bytes": sum([one.response_bytes for one in requests]),
        "published": sum([one.accepted for one in ledger.topics.values()]),
        "published_bytes": sum([one.accepted_bytes for one in ledger.topics.values()]),
        "deliveries": ledger.total("delivered", "replayed"),
        "delivered_bytes": ledger.total("size_bytes"),
    }
    assert sums[""]["requests"] == ledger.confirmations
    assert not sums[""]["published"] + sums[""]["deliveries"]


def check_times(report: Report, served: TrafficData) -> None:
    """The percentiles are within their accuracy of the exact ones of the events."""
    decode = msgspec.json.Decoder(Event | SegmentOpened | SegmentSealed).decode
    lines = [decode(line) for path in served.segments() for line in path.read_bytes().splitlines()]
    first = [event for event in lines if isinstance(event, DeliveryDelivered) and not event.replayed]
    times = sorted([event.since_publish_ms for event in first if event.message_type == "Notification"])
    for permille, found in ((500, report.totals.p50_ms), (900, report.totals.p90_ms), (999, report.totals.p999_ms)):
        exact = nearest_rank(times, permille)
        assert found is not None
        assert exact is not None
        assert found <= exact < found * (1 + 1 / 128) + 1
    assert report.totals.max_ms == report.slowest[0].since_publish_ms == times[-1]
    assert sum([one.deliveries for one in report.latency]) == len(times) == report.totals.delivered
    ended = report.totals.delivered + report.totals.dead_lettered + report.totals.dropped
    assert report.totals.success_share == report.totals.delivered / ended


def check_files(reported: WrittenReport) -> None:
    with (reported.directory / "subscriptions.csv").open(newline="") as file:
        rows = {(row["topic"], row["subscription"]): int(row["attempts"]) for row in csv.DictReader(file)}
    assert rows == {(row.topic, row.name): row.figures.attempts for row in reported.report.subscriptions.rows}
    assert str(reported.directory) in reported.text
    assert "<html" in (reported.directory / "report.html").read_text()
    assert [path.name for path in reported.directory.parent.iterdir()] == ["all"]
