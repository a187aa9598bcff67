"""The result of a round, stored as one JSON line."""

from __future__ import annotations

import msgspec


class RoundResult(msgspec.Struct, frozen=True, kw_only=True):
    kind: str  # what was killed or cut off, or the form of the service
    seed: int
    faults: list[str]
    seconds: float = 0.0

    @property
    def valid(self) -> bool:
        return not self.faults


class PowerResult(RoundResult, frozen=True, kw_only=True):
    """Two runs of a store under load, the power cut at many points; the disk of each cut is reopened twice."""

    kind: str = "power"
    records: int  # writes and syncs that were recorded
    checkpoints: int
    acknowledged: int  # calls
    cuts: dict[str, int]  # by kind of point


class LoadResult(RoundResult, frozen=True, kw_only=True):
    """A round against the running service."""

    place: str  # a random time, or the named point and how often it was passed
    messages: int = 0  # acknowledged sends
    notifications: int = 0  # acknowledged publishes
    in_order: int = 0  # of them to the FIFO topic
    deliveries: int = 0  # of notifications, at HTTP endpoints and in the queue
    unanswered: int = 0  # sends and publishes that got no answer and were repeated
    duplicates: dict[str, int] = {}


class KillResult(LoadResult, frozen=True, kw_only=True):
    """A round against the whole embedded service, of whose processes the API, the worker or both were killed."""

    reached: bool = False
    failed: int = 0  # attempts at failing endpoints
    breakers: int = 0  # opened by a worker
    dead_letters: int = 0
    repeated_ms: int = 0  # longest time from a first arrival to the kill, if it arrived again after it
    down_ms: int = 0  # from the kill until the API answered and notifications arrived again


class ClusterResult(LoadResult, frozen=True, kw_only=True):
    """A round against the cluster form: lab.faults.cluster.plan has its kinds."""

    down_ms: int = 0  # from the kill until a send and a publish begun after it got through
    wait_ms: int = 0  # longest wait of a sender for its acknowledgement, retries included
    bodies: int = 0  # unreferenced bodies of FIFO queues, left by calls without an answer; their TTL removes them


class RestartResult(LoadResult, frozen=True, kw_only=True):
    """A round under SDKs, in which processes were replaced one after the other. `restarts.forms` has its kinds."""

    kills: dict[str, int] = {}  # SIGKILL, by process
    stops: int = 0  # SIGTERM to a process
    restarts: int = 0  # of everything, by new code
    calls: int = 0
    failed: int = 0  # calls that the SDK reported as failed; each is a fault
    repeated: int = 0  # attempts
    cut: dict[str, int] = {}  # attempts that failed, by what was done last and the error
    done_before: int = 0  # repeats refused since the attempt that was cut had its effect
