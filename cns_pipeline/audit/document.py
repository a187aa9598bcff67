"""The audit as one document: `out/audit/audit.json`, the source of the terminal output and of the page.

Rates are shares of the messages that were sent in the period (λ and ε of the paper in ADR 0016), and of those whose
order could be compared. A rate is None without messages.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """How much the order of first receives differs from the order of sends."""

    compared: int = 0  # messages: sent and received
    out_of_order: int = 0  # not in the longest increasing subsequence
    displacement_sum: int = 0  # of |position by receives − position by sends|
    out_of_order_rate: float | None = None  # out_of_order / compared
    average_displacement: float | None = None  # displacement_sum / compared


class AuditCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Fates of the messages that were sent in the period: counts of messages, unless said otherwise."""

    sent: int
    received: int  # at least once
    deleted: int
    receives: int  # receives of these messages, repeated ones as well
    duplicates: int  # receives beyond the first of each message
    repeated: int  # of these, receives with a receive count that the message already had
    expired: int
    purged: int
    dead_lettered: int
    moved: int
    queue_deleted: int
    waiting: int  # not received yet, and no event shows that they are overdue
    unknown: int  # their fate may be among the missing events
    missing: int  # neither received nor ended, although the queue was empty since
    corrupt: int  # received with another checksum than sent
    lost: int  # missing + corrupt
    unsent: int  # received without a `message.sent` event; in no other count
    first_sent_ms: int | None
    last_sent_ms: int | None
    first_received_ms: int | None
    last_deleted_ms: int | None
    loss_rate: float | None  # ε: lost / sent
    loss_rate_max: float | None  # if all unknown messages were lost
    duplicate_rate: float | None  # λ: duplicates / sent
    send_per_s: float | None  # over the time from the first send to the last
    receive_delete_per_s: float | None  # deleted messages, over the time from the first receive to the last delete


class QueueFindings(msgspec.Struct, frozen=True, kw_only=True):
    queue: str  # ARN
    fifo: bool
    counts: AuditCounts
    order: Order


class GroupAudit(msgspec.Struct, frozen=True, kw_only=True):
    """A message group of a FIFO queue."""

    queue: str
    group: str
    counts: AuditCounts
    order: Order


class PairAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The messages from one sending to one receiving process. On FIFO queues the order is that of the sequence numbers,
    so these have one row for all senders of a group."""

    queue: str
    group: str  # FIFO
    sender: str  # boot; empty on FIFO queues
    receiver: str  # boot
    order: Order


class LostMessage(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    message_id: str
    group: str
    sent_ms: int
    cause: Literal["missing", "corrupt"]


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A period of missing events."""

    process: str  # empty for a queue whose audit was off
    queue: str  # empty: all queues
    boot: str
    from_ms: int
    to_ms: int | None  # None: the process runs and its later events are not ingested yet; or the audit is still off
    events: int | None  # how many are missing; None: unknown


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, in words. An `error` breaks a promise of the service; it makes the exit code 1."""

    severity: Severity
    queue: str  # empty: of all queues
    text: str


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """`queues`, `groups`, `pairs`, `lost` and `gaps` have the worst rows, worst first. The tables beside the document
    have all rows."""

    made_at_ms: int
    since_ms: int
    until_ms: int
    last_event_ms: int | None  # time of the newest event; None: no events
    at_rest: bool  # by the operator, all queues are empty
    queues: tuple[QueueFindings, ...]
    queues_left_out: int = 0
    groups: tuple[GroupAudit, ...]
    groups_left_out: int
    pairs: tuple[PairAudit, ...]
    pairs_left_out: int
    lost: tuple[LostMessage, ...]
    lost_left_out: int
    gaps: tuple[Gap, ...]
    gaps_left_out: int
    missing_events: int  # in all gaps whose number is known
    findings: tuple[AuditFinding, ...]
