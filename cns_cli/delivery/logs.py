"""`cns logs …`: delivery status logs that workers of this machine wrote."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cns_backend.delivery_logs.reader import LogReader
from cns_backend.delivery_logs.record import FAILURE_GROUP, group_of_arn
from cns_cli.durations import time_ms
from cns_cli.options import Data
from cns_cli.output import refuse
from cns_common.clock import Clock
from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError

POLL_INTERVAL_S = 0.5
HOW = "; a topic logs with: cns topic set TOPIC HTTPFailureFeedbackRoleArn=arn:aws:iam::123456789012:role/any"


def logs(
    name: Annotated[str, typer.Argument(metavar="ARN", help="A topic, a platform application, or a log group: sns/….")],
    failures: Annotated[bool, typer.Option("--failures", help="Failed deliveries only.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new records.")] = False,
    since: Annotated[str, typer.Option(help="Since 10m, 2h, 1d ago, or a time: 2026-11-21T08:00 (UTC).")] = "",
    data: Data = None,
) -> None:
    """Print delivery status logs of this machine's workers, one record per line, ordered by time."""
    try:
        group, since_ms = _group(name), time_ms(since, Clock().real_ms())
    except ValueError as error:
        refuse(error)
    try:
        settings = load_settings(data)
        directory = settings.delivery_logs_path
        if not settings.data.is_dir():
            raise StartError(f"there is no data directory {settings.data.absolute()}", EXIT_DATA_UNUSABLE)
    except StartError as error:
        refuse(error, error.exit_code)
    groups = [group + FAILURE_GROUP] if failures else [group, group + FAILURE_GROUP]
    try:
        _print(directory, groups, since_ms, follow=follow)
    except KeyboardInterrupt:
        sys.exit(0)


def _print(directory: Path, groups: Sequence[str], since_ms: int, *, follow: bool) -> None:
    reader = LogReader(directory, groups)
    wait = threading.Event()
    while True:
        entries = reader.read(since_ms)
        for entry in entries:
            print(_printable(entry.line))
        if not follow:
            if not entries:
                more = " since then" if since_ms else HOW
                print(f"cns: nothing is logged of {groups[0]} in {directory}{more}", file=sys.stderr)
            return
        sys.stdout.flush()
        wait.wait(POLL_INTERVAL_S)


def _printable(line: str) -> str:
    """Escape control characters, which could control a terminal: a record contains the answer of an endpoint."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


def _group(name: str) -> str:
    """Return the log group of an ARN, or the given group itself."""
    group = name.removesuffix(FAILURE_GROUP) if name.startswith("sns/") else group_of_arn(name)
    if not group or not name.isprintable():
        raise ValueError(f"{name} is neither the ARN of a topic or an application nor a log group sns/…")
    return group
