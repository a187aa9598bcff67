"""Writes administrative acts: each is on the disk before its caller is answered, unless the disk refuses or is slow.

An act is not refused because it cannot be recorded: on a full disk queues must be deleted. Such an act is a line of the
process's own log, `act.unrecorded`, with all its fields. Acts that failed or changed nothing, and those of callers
without credentials, have files and a share of the size of their own: they push out no act that others did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from cns_common.activity.record import AdministrativeAct
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.errors import CnsError
from cns_common.events.audit_log import AuditWriter
from cns_common.events.segment import SegmentLimits

WAIT_S_MAX = 2.0
"""How long an answer waits for the disk."""
SEGMENT_BYTES_MAX = 16 * 1024 * 1024
SEGMENT_AGE_S = 3_600
FAILED = "failed"
"""The directory of `failed` acts, within the log's."""
FAILED_SHARE = 4
"""They take this part of the log's size at most."""

log = structlog.get_logger(__name__)


class ActLog(Protocol):
    """`failed` acts are those that failed or changed nothing, and those of callers without credentials."""

    async def record(self, act: AdministrativeAct, *, failed: bool = False) -> None:
        """Durable on return, or logged as unrecorded. Never fails."""
        ...

    def record_later(self, act: AdministrativeAct, *, failed: bool = False) -> None:
        """Record an act whose caller no longer waits. Never fails."""
        ...

    def close(self) -> None: ...


class ActivityWriter(ActLog):
    """May be used from any event loop."""

    def __init__(self, directory: Path, process: str, clock: Clock, *, retention_s: int, bytes_max: int) -> None:
        def writer(where: Path, bytes_max: int) -> AuditWriter:
            limits = SegmentLimits(
                segment_bytes_max=min(SEGMENT_BYTES_MAX, bytes_max // 8 or 1),
                segment_age_s=SEGMENT_AGE_S,
                retention_s=retention_s,
                bytes_max=bytes_max,
            )
            return AuditWriter(where, process, clock, limits, suffix="")

        failed_bytes_max = bytes_max // FAILED_SHARE
        self._done = writer(directory, bytes_max - failed_bytes_max)
        self._failed = writer(directory / FAILED, failed_bytes_max)

    async def record(self, act: AdministrativeAct, *, failed: bool = False) -> None:
        writer = self._failed if failed else self._done
        try:
            writer.check()
            await writer.write([act], WAIT_S_MAX)
        except CnsError as error:
            _log_unrecorded(act, error)

    def record_later(self, act: AdministrativeAct, *, failed: bool = False) -> None:
        writer = self._failed if failed else self._done
        try:
            writer.check()
            writer.write_later([act])
        except CnsError as error:
            _log_unrecorded(act, error)

    def close(self) -> None:
        self._done.close()
        self._failed.close()


def act_log(settings: Settings, process: str, clock: Clock, directory: Path | None = None) -> ActLog:
    """The log of a process of this name, in the data directory unless another is given."""
    retention_s, bytes_max = settings.acts_retention_s, settings.acts_bytes_max
    where = directory or settings.acts_path
    return ActivityWriter(where, process, clock, retention_s=retention_s, bytes_max=bytes_max)


def _log_unrecorded(act: AdministrativeAct, error: CnsError) -> None:
    fields = msgspec.to_builtins(act)
    del fields["event"]
    log.error("act.unrecorded", error=str(error), **fields)
