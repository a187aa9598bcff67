"""Records administrative acts of commands in the log of the service, in the data directory."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cns_common.activity.log import act_log
from cns_common.activity.record import OK, UNKNOWN, Actor, code_of
from cns_common.activity.recorder import ActRecorder
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings
from cns_common.data_owner import is_another_users, working_as_owner

REFUSED = "Refused"
Result = TypeVar("Result")


@dataclass(slots=True)
class Note:
    """The target and detail of a record. The block sets them when they are known."""

    target: str = ""
    detail: str = ""


@contextmanager
def recorded(data: Path | None, action: str, target: str = "", detail: str = "") -> Iterator[Note]:
    """Record an act, also if an error or an interruption ends it."""
    settings, note, result = load_settings(data), Note(target, detail), REFUSED
    try:
        yield note
        result = OK
    except Exception as error:  # any error is the result of the act, and is raised again
        result = code_of(error)
        raise
    except KeyboardInterrupt:
        result = UNKNOWN
        raise
    finally:
        _record(settings, action, note, result)


async def run_recorded(
    settings: Settings, clock: Clock, action: str, work: Awaitable[Result], detail: Callable[[Result], str]
) -> Result:
    """The result of `work`, recorded as an act of the user who runs this process."""
    recorder = ActRecorder(act_log(settings, "command", clock), clock)
    try:
        return await recorder.run(_actor(), f"cns:{action}", work, "", detail)
    finally:
        recorder.close()


def _actor() -> Actor:
    return Actor(via="command", principal=caller_name())


def caller_name() -> str:
    """Return user@host; a container may run commands as a user without a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def _record(settings: Settings, action: str, note: Note, result: str) -> None:
    if not settings.data.is_dir():
        if result == OK:  # in a cluster, on a machine without the service; else nothing was done
            where = settings.data.absolute()
            print(f"cns: not in the log of acts: there is no data directory {where}", file=sys.stderr)
        return
    try:
        if not is_another_users(settings.data):
            _write(settings, settings.acts_path, action, note, result)
            return
        with working_as_owner(
            settings.data, settings.acts_path.name
        ):  # the service of this owner reads and writes there
            _write(settings, Path(), action, note, result)
    except OSError as error:
        print(f"cns: not in the log of acts: {settings.acts_path.absolute()}: {error.strerror}", file=sys.stderr)


def _write(settings: Settings, directory: Path, action: str, note: Note, result: str) -> None:
    clock = Clock()
    recorder = ActRecorder(act_log(settings, "command", clock, directory), clock)
    asyncio.run(recorder.record(_actor(), f"cns:{action}", result, note.target, note.detail))
    recorder.close()
