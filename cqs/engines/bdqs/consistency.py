"""The consistency of a queue: how many replicas answer, and how two receivers of one message are told apart.

`single`: one replica, as in the paper. What it acknowledged is lost if that replica's disk is lost before others
have it, a receive may miss messages that another replica has, and stale handles may pass. A queue's generation and list
of slots are those of a majority while one answers (`quorum_fallback`): a purge must not be missed.
`quorum`: acknowledged writes survive the loss of a minority of replicas, and reads see them. Two receivers at one
moment may both take a message; one that learns of the other in time does not deliver it.
`serial`: as `quorum`, and each change of a message is conditional on the state that it was decided by: no message is
delivered twice, or settled under a stale handle, without a timeout.
`all`: as `quorum`, by every replica: what was acknowledged survives the loss of all disks but one, and no call is
answered while a replica is away.
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
