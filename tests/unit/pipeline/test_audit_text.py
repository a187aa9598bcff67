"""Findings of an audit in words, and its text for a terminal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cns_pipeline.audit.document import Audit, AuditCounts, Gap, LostMessage, Order, QueueFindings
from cns_pipeline.audit.findings import findings
from cns_pipeline.audit.text import format_audit
from cns_pipeline.period import EVERYTHING

STANDARD = "arn:aws:sqs:us-east-1:111111111111:orders"
FIFO = "arn:aws:sqs:us-east-1:111111111111:bookings.fifo"
AT_MS = 1_763_800_000_000


def counts(**given: int) -> AuditCounts:
    names = [field.name for field in msgspec.structs.fields(AuditCounts)]
    sent = given.get("sent", 1_000)
    lost = given.get("missing", 0) + given.get("corrupt", 0)
    values: dict[str, Any] = dict.fromkeys(names, 0) | given | {"sent": sent, "lost": lost}
    values |= {"loss_rate": lost / sent, "loss_rate_max": (lost + given.get("unknown", 0)) / sent}
    values |= {"duplicate_rate": given.get("duplicates", 0) / sent, "send_per_s": 12.5, "receive_delete_per_s": None}
    return AuditCounts(**values)


def audited(*queues: QueueFindings, lost: tuple[LostMessage, ...] = (), gaps: tuple[Gap, ...] = ()) -> Audit:
    audit = Audit(
        made_at_ms=AT_MS,
        since_ms=EVERYTHING.since_ms,
        until_ms=EVERYTHING.until_ms,
        last_event_ms=AT_MS,
        at_rest=False,
        queues=queues,
        groups=(),
        groups_left_out=0,
        pairs=(),
        pairs_left_out=0,
        lost=lost,
        lost_left_out=0,
        gaps=gaps,
        gaps_left_out=0,
        missing_events=0,
        findings=(),
    )
    return msgspec.structs.replace(audit, findings=findings(audit))


def queue(arn: str = STANDARD, order: Order | None = None, **given: int) -> QueueFindings:
    return QueueFindings(queue=arn, fifo=arn == FIFO, counts=counts(**given), order=order or Order())


def said(audit: Audit) -> list[tuple[str, str]]:
    return [(finding.severity, finding.text) for finding in audit.findings]


SWAPPED = Order(compared=1_000, out_of_order=1, displacement_sum=2, out_of_order_rate=0.001, average_displacement=0.002)
WORDS = {
    "expired and purged messages are no fault": (queue(expired=3, purged=4), []),
    "a standard queue promises no order": (
        queue(order=SWAPPED),
        [
            (
                "note",
                "1 of 1,000 messages (0.1000%) were received out of order; a message is 0.002 places from its right "
                "one on average (a standard queue promises no order)",
            )
        ],
    ),
    "a FIFO queue promises order": (
        queue(FIFO, SWAPPED),
        [
            (
                "error",
                "1 of 1,000 messages (0.1000%) were received out of order; a message is 0.002 places from its right "
                "one on average",
            )
        ],
    ),
    "unknown is not loss": (
        queue(unknown=20, missing=0),
        [
            (
                "warning",
                "what became of 20 messages is unknown, as events are missing or a purge came up to two minutes "
                "before: the loss rate is between 0.0000% and "
                "2.0000%",
            )
        ],
    ),
    "duplicates by their reason": (
        queue(duplicates=5, repeated=2, waiting=1, unsent=6),
        [
            (
                "warning",
                "2 receives gave a message out again with the same receive count: the queue handed the message to two "
                "receivers",
            ),
            (
                "note",
                "3 receives gave a message out again, as its visibility timeout ended before it was deleted",
            ),
            ("note", "6 messages were received whose send is not among the events"),
            ("note", "1 messages wait to be received"),
        ],
    ),
    "corrupt without ids": (
        queue(corrupt=1),
        [
            (
                "error",
                "1 of 1,000 messages (0.1000%) were received with another payload than was sent: their ids are in "
                "lost.csv",
            )
        ],
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_words(case: str) -> None:
    of_queue, expected = WORDS[case]
    assert said(audited(of_queue)) == expected


def test_lost_messages_are_named_the_first_twenty() -> None:
    lost = [LostMessage(queue=STANDARD, message_id=f"id-{n}", group="", sent_ms=n, cause="missing") for n in range(20)]
    ((severity, text),) = said(audited(queue(missing=23), queue(FIFO), lost=tuple(lost)))
    assert severity == "error"
    assert text == (
        "23 of 1,000 messages (2.3000%) were lost: neither received nor removed for a known reason: "
        + ", ".join([f"id-{n}" for n in range(20)])
        + ", and 3 more in lost.csv"
    )


def test_gaps_say_what_is_missing() -> None:
    gap = Gap(process="api", queue="", boot="b", from_ms=AT_MS, to_ms=AT_MS + 60_000, events=7)
    runs = Gap(process="api", queue="", boot="c", from_ms=AT_MS, to_ms=None, events=None)
    off = Gap(process="", queue=STANDARD, boot="", from_ms=AT_MS, to_ms=AT_MS + 1_000, events=None)
    assert said(audited(gaps=(off, runs, gap))) == [
        (
            "warning",
            "7 events of process api (boot b) between 2025-11-22 08:26:40Z and 2025-11-22 08:27:40Z are missing",
        ),
        ("note", "the audit was off, or not on in all processes, from 2025-11-22 08:26:40Z to 2025-11-22 08:26:41Z"),
        ("note", "process api (boot c) may still run: events since 2025-11-22 08:26:40Z may not be ingested yet"),
    ]


def test_the_text_says_what_is_wrong_first() -> None:
    lost = (LostMessage(queue=STANDARD, message_id="the-lost-one", group="", sent_ms=1, cause="missing"),)
    text = format_audit(audited(queue(missing=1, duplicates=2), queue(FIFO), lost=lost), "/out/audit")
    first, wrong, note, *rest = text.splitlines()
    assert first == "2 audited queues, 2,000 messages sent: all events"
    assert wrong.startswith("error: orders: 1 of 1,000 messages")
    assert wrong.endswith("the-lost-one")
    assert note.startswith("note: orders: 2 receives gave a message out again")
    assert rest[-1] == "/out/audit"
    assert [row.split()[0] for row in rest if row.startswith(("orders", "bookings.fifo"))] == [
        "orders",
        "bookings.fifo",
    ]


def test_nothing_wrong() -> None:
    text = format_audit(audited(queue()), "/out/audit")
    assert "nothing was lost, changed or received out of order" in text


def test_without_an_audited_queue_nothing_is_said_to_be_well() -> None:
    text = format_audit(audited(), "audit")
    assert "no queue has Audit=on" in text
    assert "nothing was lost" not in text
