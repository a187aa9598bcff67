"""One Spark session for all tests, and jobs run as a person runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cns_pipeline.session import open_session
from tests.acceptance.conftest import receiver  # noqa: F401  # the fixture
from tests.parts import need
from tests.pipeline.jobs import QUICK_JAVA


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
        process.wait(20)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
