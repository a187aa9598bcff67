"""Makes the Spark session: small, local and without a web page, unless the job was submitted."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError

_LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment of a job that `spark-submit` runs with its own options and Java process."""
STANDARD_ERROR = 2
ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreMissingFiles": "true",  # the retention removed a segment; its gap is counted
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}
LOCAL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
}


@contextmanager
def open_session(name: str, java_log: Path | None = None) -> Iterator[SparkSession]:
    """Open a session that is stopped at the end. Its Java process writes its standard error to `java_log`, if given."""
    with nullcontext() if java_log is None else _standard_error_to(java_log):
        session = SparkSession.builder.config(conf=_conf(name)).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def open_job(name: str, directory: Path) -> Iterator[SparkSession]:
    """Open the session of a job. What fails in Spark is raised as a StartError of one line.

    Java's stack traces go to a file in the directory, not to the terminal; a submitted job's go where `spark-submit`
    sends them.
    """
    log = None if _is_submitted() else directory / f"{name}.log"
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs errors that are raised, too
    try:
        with open_session(name, log) as session:
            yield session
    except (PySparkException, Py4JError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        more = f" (more is in {log})" if log else ""
        raise StartError(f"{name} failed in Spark: {first}{more}", EXIT_DATA_UNUSABLE) from error


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Redirect the standard error of this process, and of those that it starts meanwhile."""
    terminal = os.dup(STANDARD_ERROR)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.dup2(file, STANDARD_ERROR)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, STANDARD_ERROR)
        os.close(terminal)
        os.close(file)


def _is_submitted() -> bool:
    return SUBMITTED in os.environ  # noqa: TID251  # Spark's variable


def _conf(name: str) -> SparkConf:
    for key, value in ALWAYS.items() if _is_submitted() else ():
        SparkContext.setSystemProperty(key, value)  # starts the gateway, so that SparkConf reads the submitted options
    conf = SparkConf().setAppName(name).setAll(list(ALWAYS.items()))
    if (conf.get("spark.master") or "local").startswith("local"):
        for key, value in LOCAL.items():
            conf.setIfMissing(key, value)
    return conf
