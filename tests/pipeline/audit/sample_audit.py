"""An audit made by hand, with every part filled."""

from __future__ import annotations

from cns_common.durations import DAY_MS, HOUR_MS
from cns_pipeline.audit.document import (
    Audit,
    AuditCounts,
    AuditFinding,
    Gap,
    GroupAudit,
    LostMessage,
    Order,
    PairAudit,
    QueueFindings,
)
from tests.pipeline.reports.sample_report import QUEUE, START_MS

COUNTS = AuditCounts(
    sent=1_000,
    received=996,
    deleted=990,
    receives=1_050,
    duplicates=54,
    repeated=0,
    expired=1,
    purged=0,
    dead_lettered=0,
    moved=0,
    queue_deleted=0,
    waiting=1,
    unknown=1,
    missing=1,
    corrupt=1,
    lost=2,
    unsent=0,
    first_sent_ms=START_MS,
    last_sent_ms=START_MS + HOUR_MS,
    first_received_ms=START_MS + 5,
    last_deleted_ms=START_MS + HOUR_MS + 9,
    loss_rate=0.002,
    loss_rate_max=0.003,
    duplicate_rate=0.054,
    send_per_s=0.28,
    receive_delete_per_s=0.275,
)
ORDER = Order(compared=996, out_of_order=199, displacement_sum=398, out_of_order_rate=0.2, average_displacement=0.4)
SAMPLE_AUDIT = Audit(
    made_at_ms=START_MS + DAY_MS,
    since_ms=START_MS,
    until_ms=START_MS + DAY_MS,
    last_event_ms=START_MS + DAY_MS - 1,
    at_rest=False,
    queues=(QueueFindings(queue=QUEUE, fifo=False, counts=COUNTS, order=ORDER),),
    groups=(GroupAudit(queue=QUEUE, group="g", counts=COUNTS, order=ORDER),),
    groups_left_out=1,
    pairs=(PairAudit(queue=QUEUE, group="", sender="1f0c", receiver="2a3b", order=ORDER),),
    pairs_left_out=0,
    lost=(LostMessage(queue=QUEUE, message_id="m-1", group="", sent_ms=START_MS + 7, cause="missing"),),
    lost_left_out=1,
    gaps=(Gap(process="api-audit", queue="", boot="1f0c", from_ms=START_MS, to_ms=START_MS + 5, events=40),),
    gaps_left_out=0,
    missing_events=40,
    findings=(
        AuditFinding(severity="error", queue=QUEUE, text="2 of 1,000 messages were lost"),
        AuditFinding(severity="warning", queue="", text="40 events are missing"),
        AuditFinding(severity="note", queue=QUEUE, text="5.4 % of the messages were received twice"),
    ),
)
