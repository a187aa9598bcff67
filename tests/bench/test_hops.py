"""The arithmetic of the section `hops`: a mean of the wrong span would go unnoticed."""

from __future__ import annotations

import pytest

from lab.bench.sections.hops import Hop, hops_of, mean_ms
from lab.harness.service import read_samples

SEEN = {"answered": 10.0, "accepted": 2.0, "arrived": 60.0, "fanout_begun": 13.0, "job_begun": 43.0, "delivered": 61.0}
PAGE = """\
cns_job_wait_seconds_bucket{process="worker-1",queue="publish-jobs",le="0.01"} 3
cns_job_wait_seconds_sum{process="worker-1",queue="publish-jobs"} 0.5
cns_job_wait_seconds_count{process="worker-1",queue="publish-jobs"} 3
cns_job_wait_seconds_sum{process="worker-2",queue="publish-jobs"} 1.5
cns_job_wait_seconds_count{process="worker-2",queue="publish-jobs"} 1
cns_delivery_seconds_sum{process="worker-1",protocol="http",attempt="first"} 0.25
cns_delivery_seconds_count{process="worker-1",protocol="http",attempt="first"} 2
cns_other_total{process="worker-1"} 7
"""


def test_hops_follow_one_another_and_add_up() -> None:
    hops = hops_of(**SEEN, fanout_took=20.0)
    assert [hop.mean_ms for hop in hops] == [10.0, 5.0, 20.0, 10.0, 15.0, 3.0]
    assert sum(hop.mean_ms for hop in hops) == SEEN["accepted"] + SEEN["delivered"]


def test_without_a_fan_out_there_is_one_queue() -> None:
    assert hops_of(**SEEN, fanout_took=0)[1] == Hop("queue of endpoint jobs", 35.0)


def test_a_mean_is_of_what_all_processes_observed_in_between() -> None:
    before = read_samples(PAGE)
    after = read_samples(PAGE.replace('"} 1.5', '"} 2.5').replace('"publish-jobs"} 1\n', '"publish-jobs"} 5\n'))
    assert mean_ms(before, after, "job_wait_seconds", queue="publish-jobs") == pytest.approx(250.0)
    assert mean_ms(before, after, "delivery_seconds", attempt="first") == 0
