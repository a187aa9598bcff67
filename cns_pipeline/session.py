"""Opens the Spark session: small, local and without a web page, unless the job was submitted to a cluster."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_pipeline.arguments import Arguments
from cns_pipeline.class_archive import DIRECTORY, archive_path, finished_at_end, options_to_make, options_to_use
from cns_pipeline.progress import progress_shown

_LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""An environment variable of jobs that `spark-submit` starts with its own options and Java process."""
STANDARD_ERROR = 2
CAUSE = "Caused by: "
TRACEBACK = "Traceback (most recent call last):"
_JAVA_LOG = "spark.cns.javaLog"
"""A setting of this package: the file for the standard error of the Java process."""
ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreMissingFiles": "true",  # the retention may remove a segment; it counts as a gap
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
STARTED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # one compiler, one collector: they save 40 % of the CPU of a start (ADR 0015). A cache of 48 MB would overflow
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m -XX:+UseSerialGC "
    f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
}
"""Not for a submitted job, which has the options of its operator."""
LOCAL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.cache.maxEntries": "1000",  # a report needs more than the default, 100
}
"""Settings of a session whose tasks run in the driver's process."""


@contextmanager
def open_session(name: str, java_log: Path | None = None, master: str = "") -> Iterator[SparkSession]:
    """Open a session, and stop it at the end. Its Java process writes standard error to `java_log`, if given."""
    archive = archive_path(DIRECTORY, *([java_log.parent] if java_log else []))
    making = archive if archive is not None and java_log is not None and not archive.exists() else None
    options = options_to_use(archive) if making is None else options_to_make(making)
    with nullcontext() if java_log is None else _standard_error_to(java_log):
        conf = _conf(name, master, options).set(_JAVA_LOG, str(java_log or ""))
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    with finished_at_end(making if options in conf.get(JAVA_OPTIONS, "") else None):
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def open_job(name: str, arguments: Arguments) -> Iterator[SparkSession]:
    """Open the session of a job, or use the open one. Errors of Spark become a StartError of one line.

    Java's stack traces go to a file of the data directory, not to the terminal; those of a submitted job go where
    `spark-submit` sends them.
    """
    log = None if _is_submitted() else arguments.local / f"{name}.log"
    log_name = str(log or "")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it also logs errors that it raises
    try:
        with _open_already() or _new_job(name, log, arguments.master) as session:
            log_name = session.conf.get(_JAVA_LOG, "") or ""
            yield session
    except (PySparkException, Py4JError) as error:
        more = f" (more is in {log_name})" if log_name else ""
        raise StartError(f"{name} failed in Spark: {reason_of(error)}{more}", EXIT_DATA_UNUSABLE) from error


def reason_of(error: Exception) -> str:
    """One line: the deepest cause that Java reports, else the end of a Python traceback, else the first line."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    causes = [line.removeprefix(CAUSE) for line in lines if line.startswith(CAUSE)]
    if causes:
        return causes[-1]
    if lines[0].endswith(TRACEBACK):
        return next((line for line in lines[1:] if line and not line.startswith(" ")), lines[0])
    return lines[1].removeprefix(": ") if len(lines) > 1 and lines[1].startswith(": ") else lines[0]


@contextmanager
def _new_job(name: str, log: Path | None, master: str) -> Iterator[SparkSession]:
    with progress_shown(name), open_session(name, log, master) as session:
        yield session


def _open_already() -> AbstractContextManager[SparkSession] | None:
    """The open session, which is not stopped: a command opens one session for all its jobs."""
    session = SparkSession.getActiveSession()
    return None if session is None else nullcontext(session)


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Redirect the standard error of this process, and of processes that it starts, while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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


def _conf(name: str, master: str, options: str) -> SparkConf:
    """`options` are added to the options of Java."""
    for key, value in ALWAYS.items() if _is_submitted() else ():
        SparkContext.setSystemProperty(key, value)  # starts the gateway, so that SparkConf reads the submitted options
    conf = SparkConf().setAppName(name).setAll(list(ALWAYS.items()))
    if master:
        conf.setMaster(master)
    is_local = (conf.get("spark.master") or "local").startswith("local")
    settings: dict[str, str] = {}
    if is_local or not _is_submitted():
        settings = {**STARTED, JAVA_OPTIONS: STARTED[JAVA_OPTIONS] + options}
    if is_local:
        settings |= LOCAL
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # noqa: TID251  # Spark's variable: the Python of tasks
    for key, value in settings.items():
        conf.setIfMissing(key, value)
    return conf
