"""A job in quarantine, as it is stored: `cns_workers.jobs.quarantine` sets jobs aside."""

from __future__ import annotations

import hashlib

import msgspec

ID_CHARS = 16


class QuarantinedJob(msgspec.Struct, frozen=True, array_like=True):
    """Everything that is needed to show a job, and to put it back."""

    queue: str
    id: str
    group: str
    topic: str
    at_ms: int
    why: str
    body: bytes


def quarantine_id(item: QuarantinedJob) -> str:
    """Short enough to be typed, and the same when a process died in between and the job is quarantined again."""
    return hashlib.sha256(f"{item.queue}/{item.id}".encode()).hexdigest()[:ID_CHARS]
