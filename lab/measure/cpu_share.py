"""A share of a core for a process: so several processes can be compared on a machine with few cores. Linux, root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/cpu")
"""Control groups, version 1."""
MEMBERS = "cgroup.procs"
PERIOD_US = 50_000


@contextmanager
def cpu_share(name: str, share: float) -> Iterator[Path]:
    """A control group whose processes use `share` of a core together. A process whose id is written to the yielded file
    joins it, with the threads and children that it starts. Those that live at the end of the block are bounded no more.
    """
    group = GROUPS / name
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
        (group / "cpu.cfs_quota_us").write_text(f"{round(PERIOD_US * share)}")
        yield group / MEMBERS
    finally:
        for member in (group / MEMBERS).read_text().split():
            (GROUPS / MEMBERS).write_text(member)
        group.rmdir()
