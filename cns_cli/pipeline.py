"""`cns pipeline …`: the Spark jobs on this machine, and in one line what they lack where they cannot run."""

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
from cns_pipeline.arguments import arguments_of, exit_code

JAVA_VERSION_MIN = 17
_VERSION = re.compile(rb'version "(\d+)')

app = typer.Typer(help="Reports on what happened, by Spark; needs Java.", no_args_is_help=True, add_completion=False)

Out = Annotated[Path | None, typer.Option(help="Where the tables and reports lie. [default: DATA/pipeline]")]


@app.command("ingest")
def pipeline_ingest(
    data: Data = None,
    events: Annotated[Path | None, typer.Option(help="Where events were written. [default: DATA/events]")] = None,
    out: Out = None,
) -> None:
    """Read the events that are new into tables, each once."""

    def work() -> str:
        check_tools()
        from cns_pipeline.jobs.ingest import run

        return run(arguments_of(data, events, out))

    sys.exit(exit_code(work))


@app.command("report")
def pipeline_report(data: Data = None, out: Out = None) -> None:
    """Per topic and subscription: accepted, attempts, success, times from publish to delivery."""

    def work() -> str:
        check_tools()
        from cns_pipeline.jobs.report import run

        return run(arguments_of(data, None, out))

    sys.exit(exit_code(work))


def check_tools() -> None:
    """Raises what a person must install."""
    if find_spec("pyspark") is None:
        raise _lacking("PySpark is not installed: run `make install-pipeline`")
    home = os.environ.get("JAVA_HOME")  # noqa: TID251  # Java's variable
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise _lacking(f"there is no Java {where}: install Java {JAVA_VERSION_MIN} (Debian: openjdk-17-jre-headless)")
    said = subprocess.run([java, "-version"], capture_output=True, check=False).stderr  # noqa: S603  # the Java that Spark would run
    version = _VERSION.search(said)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        found = f"Java {version[1].decode()}" if version else f"what is at {shutil.which(java)}"
        raise _lacking(f"Spark needs Java {JAVA_VERSION_MIN} or newer, not {found}: install it and set JAVA_HOME")


def _lacking(what: str) -> StartError:
    return StartError(f"the pipeline cannot run: {what}", EXIT_EXTRA_MISSING)
