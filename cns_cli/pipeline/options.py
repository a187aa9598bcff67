"""Options, checks of Spark and Java, and exit codes of the commands of `cns pipeline`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cns_backend.optional_dependencies import EXIT_EXTRA_MISSING, how_to_install
from cns_cli.durations import duration_ms
from cns_common.errors import StartError
from cns_pipeline.arguments import JobResult, exit_code

JAVA_VERSION_MIN = 17
EVERY = "10s"
_VERSION = re.compile(rb'version "(\d+)')

Events = Annotated[
    str, typer.Option(metavar="DIR", help="Directory or URL (hdfs:, s3a:) of the events. Default: DATA/events.")
]
KeepDays = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="DAYS", help="Remove events of earlier dates; 0: none. Default: CNS_PIPELINE_KEEP_DAYS."
    ),
]
Out = Annotated[
    str,
    typer.Option(
        metavar="DIR", help="Directory or URL (hdfs:, s3a:) of the tables and reports. Default: DATA/pipeline."
    ),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="Run on a Spark cluster: spark://HOST:7077. Default: on this machine.")
]
Since = Annotated[
    str, typer.Option(metavar="TIME", help="From this time on: 2026-11-22, 2026-11-22T08:00 (UTC), -24h, -7d.")
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Before this time; written as for --since.")]
Day = Annotated[str, typer.Option(metavar="DATE", help="One day in UTC: 2026-11-22, today or yesterday.")]


def seconds(text: str, option: str) -> float:
    """Parse a duration. A wrong one ends the command with a usage error that names the option."""
    found_ms = duration_ms(text)
    if not found_ms:
        raise typer.BadParameter(f"{text!r} is not a duration like 10s or 5m", param_hint=option)
    return found_ms / 1000


def run_job(work: Callable[[], JobResult], *, json: bool, by_spark: bool = True) -> NoReturn:
    """Run a job after the checks for Spark, if it needs Spark; print its result, and exit with its code."""

    def checked() -> JobResult:
        if by_spark:
            check_tools()
        return work()

    sys.exit(exit_code(checked, json=json))


def check_tools() -> None:
    """Raise a StartError that says what to install if PySpark or Java is missing."""
    if find_spec("pyspark") is None:
        raise _missing(f"PySpark is not installed: run {how_to_install('pipeline')}")
    home = os.environ.get("JAVA_HOME")  # noqa: TID251  # Java's variable
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise _missing(f"there is no Java {where}: install Java {JAVA_VERSION_MIN} (Debian: openjdk-17-jre-headless)")
    output = subprocess.run([java, "-version"], capture_output=True, check=False).stderr  # noqa: S603  # the Java that Spark would run
    version = _VERSION.search(output)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        found = f"Java {version[1].decode()}" if version else f"{shutil.which(java)}"
        raise _missing(f"Spark needs Java {JAVA_VERSION_MIN} or newer, not {found}: install it and set JAVA_HOME")


def _missing(text: str) -> StartError:
    return StartError(f"the pipeline cannot run: {text}", EXIT_EXTRA_MISSING)
