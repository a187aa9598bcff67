"""A histogram of one label."""

from __future__ import annotations

from cns_common.metrics.catalogue import JOB_WAIT_SECONDS
from cns_common.metrics.histogram import Histogram


def test_what_does_not_exceed_a_bound_is_counted_there() -> None:
    waits = Histogram(JOB_WAIT_SECONDS, (0.1, 1))
    for seconds in (-1.0, 0.1, 0.2, 5.0):
        waits.observe(seconds, "a")
    waits.observe(1.0, "b")
    found = {
        (sample.name.removeprefix("cns_job_wait_seconds_"), *dict(sample.labels).values()): sample.value
        for sample in waits.samples()
    }
    assert found[("bucket", "a", "0.1")] == 2
    assert found[("bucket", "a", "1")] == 3
    assert (found[("bucket", "a", "+Inf")], found[("count", "a")]) == (4, 4)
    assert round(found[("sum", "a")], 6) == 5.3
    assert found[("count", "b")] == 1
