"""The attack program in small: each attack runs, is counted, and leaves the service answering."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.api import ATTACKS, Site, attacked_service, run
from tests.attacks.measure import GROWTH_BYTES_MAX, LOG_BYTES_MAX

CONNECTIONS, EACH_BYTES = 4, 400_000
CALLS = 20


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with attacked_service(Path(tmp_path_factory.mktemp("attacks"))) as started:
        yield started


@pytest.mark.extended
@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_in_small(site: Site, name: str) -> None:
    size = ATTACKS[name][1].shrunk(CONNECTIONS, EACH_BYTES)
    outcome = run(site, name, size, CALLS)
    assert outcome.tally.connections == size.connections
    assert outcome.tally.sent_bytes <= CONNECTIONS * (EACH_BYTES + 1_000)
    assert len(outcome.latencies_ms) >= CALLS
    assert outcome.failures == ()
    assert outcome.growth_bytes < GROWTH_BYTES_MAX
    assert outcome.log_bytes < LOG_BYTES_MAX
