from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.harness.servers import Ring


@pytest.fixture(scope="session")
def ring() -> Iterator[Ring]:
    """One ring for all tests; each leaves its three nodes running."""
    with Ring() as ring:
        yield ring
