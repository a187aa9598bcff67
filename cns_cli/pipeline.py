"""`cns pipeline …`: the Spark jobs on this machine, or one line that names a missing tool."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cns_backend.optional_dependencies import EXIT_EXTRA_MISSING
from cns_cli.options import Data
from cns_common.errors import StartError
from cns_pipeline.arguments import exit_code, make_arguments

JAVA_VERSION_MIN = 17
_VERSION = re.compile(rb'version "(\d+)')

app = typer.Typer(help="Reports about deliveries, by Spark; needs Java.", no_args_is_help=True, add_completion=False)

Out = Annotated[Path | None, typer.Option(help="Directory of the tables and reports. [default: DATA/pipeline]")]


@app.command("ingest")
def pipeline_ingest(
    data: Data = None,
    events: Annotated[Path | None, typer.Option(help="Directory of the events. [default: DATA/events]")] = None,
    out: Out = None,
) -> None:
    """Read new events into tables, each once."""

    def work() -> str:
        check_tools()
        from cns_pipeline.jobs.ingest import run

        return run(make_arguments(data, events, out))

    sys.exit(exit_code(work))


@app.command("report")
def pipeline_report(data: Data = None, out: Out = None) -> None:
    """Report per topic and subscription: accepted, attempts, success, times from publish to delivery."""

    def work() -> str:
        check_tools()
        from cns_pipeline.jobs.report import run

        return run(make_arguments(data, None, out))

    sys.exit(exit_code(work))


def check_tools() -> None:
    """Raise a StartError that says what to install if PySpark or Java is missing."""
    if find_spec("pyspark") is None:
        raise _missing("PySpark is not installed: run `make install-pipeline`")
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
