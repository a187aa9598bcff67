"""A process whose machine's wall clock is wrong: libfaketime, loaded before the program."""

from __future__ import annotations

import glob
from collections.abc import Mapping

LIBRARY = "/usr/lib/*/faketime/libfaketime.so.1"


def find_faketime() -> str | None:
    return next(iter(glob.glob(LIBRARY)), None)


def with_wrong_clock(environment: Mapping[str, str], ahead_s: int) -> dict[str, str]:
    """The variables of a process on a machine whose clock is so far ahead; 0 for a right one.

    The monotonic clock is moved, too, by as much: without that, libfaketime breaks `time.sleep`.
    """
    variables = {
        "LD_PRELOAD": find_faketime() or "",
        "FAKETIME": f"{ahead_s:+d}s",
        "NO_FAKE_STAT": "1",
    }
    plain = {name: value for name, value in environment.items() if name not in variables}
    return {**plain, **variables} if ahead_s else plain
