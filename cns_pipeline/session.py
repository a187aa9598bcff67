"""Makes the Spark session: small, local and without a web page, unless the job was submitted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

_LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment of a job that `spark-submit` runs with its own options and Java process."""
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
def open_session(name: str) -> Iterator[SparkSession]:
    """Open a session that is stopped at the end."""
    session = SparkSession.builder.config(conf=_conf(name)).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _conf(name: str) -> SparkConf:
    submitted = SUBMITTED in os.environ  # noqa: TID251  # Spark's variable
    for key, value in ALWAYS.items() if submitted else ():
        SparkContext.setSystemProperty(key, value)  # starts the gateway, so that SparkConf reads the submitted options
    conf = SparkConf().setAppName(name).setAll(list(ALWAYS.items()))
    if (conf.get("spark.master") or "local").startswith("local"):
        for key, value in LOCAL.items():
            conf.setIfMissing(key, value)
    return conf
