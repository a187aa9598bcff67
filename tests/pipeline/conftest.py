"""One Spark session for all tests, and jobs run as a person runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from cns_pipeline.session import open_session
from lab.harness.clustered import CLUSTER, serving
from lab.harness.parts import need
from lab.harness.running import running
from lab.harness.service import Samples
from lab.harness.waiting import PATIENCE_S
from tests.acceptance.conftest import receiver  # noqa: F401  # the fixture
from tests.pipeline.jobs import QUICK_JAVA
from tests.pipeline.ledger import Ledger
from tests.pipeline.traffic import make_traffic


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    need("java")
    os.environ.update(QUICK_JAVA)
    with open_session("tests") as session:
        yield session
    gateway = session.sparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        process: subprocess.Popen[bytes] = gateway.proc
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE_S)


class TrafficData(NamedTuple):
    """The data of a service that had traffic and stopped, the account of that traffic, and the last metrics. In the
    cluster form each process has a directory of its own below `data`."""

    data: Path
    ledger: Ledger
    samples: Samples

    def segments(self) -> list[Path]:
        return list(self.data.glob("**/events/*/*/*.jsonl"))

    @property
    def events(self) -> int:
        """The number of events in the sealed segments: the first and last line of each are none."""
        return sum([len(path.read_bytes().splitlines()) - 2 for path in self.segments()])


@pytest.fixture(scope="session")
def served(receiver: str, tmp_path_factory: pytest.TempPathFactory) -> TrafficData:  # noqa: F811  # the fixture
    directory = tmp_path_factory.mktemp("service")
    data = directory if CLUSTER else directory / "data"
    with (serving if CLUSTER else running)(data, "--test-clock") as service:
        ledger = make_traffic(service, receiver)
        samples = service.samples()
    return TrafficData(data, ledger, samples)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
