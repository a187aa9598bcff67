"""The result of a round, stored as one JSON line."""

from __future__ import annotations

import msgspec


class PowerResult(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs of a store under load, the power cut at many points; the disk of each cut is reopened twice."""

    kind: str = "power"
    seed: int
    records: int  # writes and syncs that were recorded
    checkpoints: int
    acknowledged: int  # calls
    cuts: dict[str, int]  # by kind of point
    faults: list[str]
    seconds: float = 0.0

    @property
    def valid(self) -> bool:
        return not self.faults


class KillResult(msgspec.Struct, frozen=True, kw_only=True):
    """A round against the whole service."""

    kind: str  # which processes were killed: api, worker, both
    seed: int
    place: str  # a random time, or the named point and how often it was passed
    reached: bool = False
    messages: int = 0  # acknowledged sends
    notifications: int = 0  # acknowledged publishes
    in_order: int = 0  # of them to the FIFO topic
    deliveries: int = 0  # of notifications, at HTTP endpoints and in the queue
    failed: int = 0  # attempts at failing endpoints
    breakers: int = 0  # opened by a worker
    dead_letters: int = 0
    unanswered: int = 0  # sends and publishes that got no answer and were repeated
    repeated_ms: int = 0  # longest time from a first arrival to the kill, if it arrived again after it
    down_ms: int = 0  # from the kill until the API answered and notifications arrived again
    duplicates: dict[str, int] = {}
    faults: list[str]
    seconds: float = 0.0

    @property
    def valid(self) -> bool:
        return not self.faults


class ClusterResult(msgspec.Struct, frozen=True, kw_only=True):
    """A round against the cluster form."""

    kind: str  # which part was killed or cut off: a kind of faults.cluster.plan
    seed: int
    place: str
    messages: int = 0  # as in KillResult
    notifications: int = 0
    in_order: int = 0
    deliveries: int = 0
    unanswered: int = 0
    down_ms: int = 0  # from the kill until a send and a publish begun after it got through
    wait_ms: int = 0  # longest wait of a sender for its acknowledgement, retries included
    bodies: int = 0  # unreferenced bodies of FIFO queues, left by calls without an answer; their TTL removes them
    duplicates: dict[str, int] = {}
    faults: list[str]
    seconds: float = 0.0

    @property
    def valid(self) -> bool:
        return not self.faults


class RestartResult(msgspec.Struct, frozen=True, kw_only=True):
    """A round with clients of boto3, in which processes are replaced one after the other."""

    kind: str  # the form of the service: one of faults.restarts.forms
    seed: int
    place: str
    kills: dict[str, int] = {}  # SIGKILL, by process
    stops: int = 0  # SIGTERM to a process
    restarts: int = 0  # of everything, by new code
    calls: int = 0
    operations: int = 0  # kinds of calls
    failed: list[str] = []  # calls that the SDK reported as failed: operation, error, what was replaced at that time
    repeated: int = 0  # attempts
    cut: dict[str, int] = {}  # attempts that failed, by error
    done_before: int = 0  # repeats refused since the attempt that was cut had its effect
    messages: int = 0  # as in KillResult
    notifications: int = 0
    in_order: int = 0
    deliveries: int = 0
    duplicates: dict[str, int] = {}
    faults: list[str]
    seconds: float = 0.0

    @property
    def valid(self) -> bool:
        return not self.faults and not self.failed
