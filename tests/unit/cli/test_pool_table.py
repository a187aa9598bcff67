"""`cns pool list`: a worker that delivers nothing is named, with the reason."""

from __future__ import annotations

import pytest

from cns_backend.stores.contract import ProcessReport
from cns_cli.delivery.pool_table import table
from cns_common.metrics.catalogue import CIRCUIT_BREAKERS_OPEN, CLOCK_OFFSET_SECONDS, CLOCK_RECEIVES_REFUSED


def test_gauges_are_listed_when_asked_for() -> None:
    report = ProcessReport("m/worker-1", "worker", (), (CIRCUIT_BREAKERS_OPEN.sample(2),))
    plain, full = [" ".join(table([report], gauges=gauges)) for gauges in (False, True)]
    assert (CIRCUIT_BREAKERS_OPEN.name in plain, CIRCUIT_BREAKERS_OPEN.name in full) == (False, True)


@pytest.mark.parametrize(
    ("offset_s", "refused", "said"),
    [
        (61.04, 1, ["m/worker-1 delivers nothing: its machine's clock is 61.0 s ahead of Cassandra's"]),
        (
            0.1,
            1,
            ["m/worker-1 delivers nothing yet: its machine's clock was set back, and message time waits"],
        ),
        (4.9, 0, []),
    ],
)
def test_a_worker_whose_clock_is_wrong(offset_s: float, refused: int, said: list[str]) -> None:
    samples = (CLOCK_OFFSET_SECONDS.sample(offset_s), CLOCK_RECEIVES_REFUSED.sample(refused))
    lines = table([ProcessReport("m/worker-1", "worker", (), samples), ProcessReport("m/worker-2", "worker", (), ())])
    found = [line for line in lines if "delivers nothing" in line]
    assert len(found) == len(said)
    assert all(line.startswith(text) for line, text in zip(found, said, strict=True))
