"""The mark of `cns migrate` on a store that it moves: a store with a mark serves nobody, so no two copies live."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import UNREADABLE, StartError

MOVE_FILE = "move.json"
"""The mark of a data directory."""

MoveState = Literal["leaving", "arriving", "moved", "left"]
_REASONS = {
    "leaving": "is being moved to {other}: run `cns migrate` again, which goes on, or end it with --reopen",
    "arriving": "holds a part of {other}, which is being moved here: run `cns migrate` again, which goes on",
    "moved": "was moved to {other}, which has all of it: start that one, or take this one back with"
    " `cns migrate --reopen`",
    "left": "was left: {other}, which was moved here, is open again; empty this one to use it",
}


class MoveMark(msgspec.Struct, frozen=True, kw_only=True):
    """`run` is the id of a run of `cns migrate`, `other` its other store."""

    run: str
    state: MoveState
    other: str
    at_ms: int


def refusal(mark: MoveMark, where: str, code: int) -> StartError:
    return StartError(f"{where} {_REASONS[mark.state].format(other=mark.other)}", code)


def read_mark(directory: Path) -> MoveMark | None:
    """The mark of a data directory. Raises StartError for a mark that cannot be read."""
    path = directory / MOVE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=MoveMark)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE) as error:
        raise StartError(f"{path} cannot be read: {error}", EXIT_DATA_UNUSABLE) from error


def check_unmoved(directory: Path) -> None:
    """Raise StartError for a data directory that `cns migrate` has marked."""
    mark = read_mark(directory)
    if mark is not None:
        raise refusal(mark, str(directory.absolute()), EXIT_DATA_UNUSABLE)
