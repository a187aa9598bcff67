"""A prepared bad day: its report names the planted faults, the heaviest first, and nothing else; a clean day none."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cns_common.durations import DAY_MS
from cns_pipeline.health.job import update_health
from cns_pipeline.ingest import ingest
from cns_pipeline.paths import PipelinePaths
from cns_pipeline.period import Period
from cns_pipeline.reports.files import new_report
from cns_pipeline.reports.render import Presentation, present
from cns_pipeline.reports.report import make_report, read_for_report
from cns_pipeline.storage import Storage
from tests.pipeline.reports.bad_day import BAD_MS, PLANTED, REASON, write_bad_day, write_clean_day

PERIOD = Period(BAD_MS, BAD_MS + DAY_MS)
MADE_MS = PERIOD.until_ms + 5

pytestmark = pytest.mark.extended  # 135,000 events


def presented(spark: SparkSession, paths: PipelinePaths) -> Presentation:
    events = read_for_report(spark, paths, PERIOD)
    with new_report(Storage(spark), paths, PERIOD) as files:
        return present(spark, paths, events, make_report(events, PERIOD, files, MADE_MS))


def test_the_report_of_a_bad_day_names_what_was_planted(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    paths = PipelinePaths(out)
    write_bad_day(tmp_path / "events")
    ingest(spark, tmp_path / "events", paths)
    update_health(spark, paths, PERIOD, MADE_MS)
    found = presented(spark, paths)
    assert tuple([str(one) for one in found.findings]) == PLANTED
    assert "What went wrong" in found.text(80)
    assert REASON not in found.page
    assert "&lt;script&gt;alert('off')&lt;/script&gt;" in found.page


def test_the_report_of_a_clean_day_names_nothing(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    """Without any history of endpoints, too: nobody ran the health job."""
    paths = PipelinePaths(out)
    write_clean_day(tmp_path / "events")
    ingest(spark, tmp_path / "events", paths)
    assert presented(spark, paths).findings == ()
