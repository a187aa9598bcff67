"""The consistency modes of a queue: how many replicas must answer, and whether two processes may take one message.

`single`: one replica, as in the paper. An acknowledged write is lost if that replica's disk fails before others have
it, a receive may miss messages that only another replica has, and stale handles may be accepted. A queue's generation
and list of slots still need a majority while one answers (`quorum_fallback`): no purge may be missed.
`quorum`: acknowledged writes survive the loss of a minority of replicas, and reads see them. Two processes may take one
message at the same time; one that learns of the other in time does not deliver it.
`serial`: as `quorum`, and each change of a message is conditional on the state on which it was decided: before its
timeout ends, a message is not delivered twice, nor settled under a stale handle.
`all`: as `quorum`, on every replica: acknowledged writes survive the loss of all disks but one, and calls fail while a
replica is down.
"""

from __future__ import annotations

import enum

from cns_common.cassandra.session import Consistency


class QueueConsistency(enum.StrEnum):
    SINGLE = "single"
    QUORUM = "quorum"
    SERIAL = "serial"
    ALL = "all"

    @property
    def level(self) -> Consistency:
        """The consistency level of reads and writes that are not conditional."""
        return _LEVELS.get(self, Consistency.QUORUM)

    @property
    def conditional(self) -> bool:
        return self is QueueConsistency.SERIAL

    @property
    def sees_deletes(self) -> bool:
        """Whether a row that a read does not find does not exist."""
        return self is not QueueConsistency.SINGLE


_LEVELS = {QueueConsistency.SINGLE: Consistency.ONE, QueueConsistency.ALL: Consistency.ALL}


def check_consistency(text: str) -> str:
    """For EngineOption.check."""
    try:
        return QueueConsistency(text.lower()).value
    except ValueError:
        raise ValueError(f"must be one of {', '.join(QueueConsistency)}") from None
