"""The report as one document, the source of the page, of the terminal output and of `report.json`.

Figures cover events of notifications, not of confirmations, with `since_ms <= at_ms < until_ms`. Times are in ms since
the epoch, spans in ms. Reasons and hosts are untrusted text: escape them before they are shown.
"""

from __future__ import annotations

import msgspec

from cns_pipeline.period import Period


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The completeness of the report: counts of its events, and of missing or unreadable ones."""

    events: int = 0  # of the period, of all kinds
    unknown: int = 0  # missing numbers: events that were not written, or removed before they were ingested
    malformed: int = 0  # malformed lines in the whole table; they have no time
    newer: int = 0  # lines of the whole table that a newer version of the service wrote
    malformed_files: tuple[str, ...] = ()  # the first ones


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Only figures that begin with `replay` include replays. None: not known at this level."""

    accepted: int | None = None  # messages published; not known for a subscription or an endpoint
    accepted_bytes: int | None = None
    matched: int | None = None  # deliveries that the accepted messages need
    filtered: int | None = None  # deliveries that filter policies rejected
    pending: int | None = None  # matched deliveries of messages accepted in the period without an end in it
    retrying: int = 0  # (message, subscription) with a failure but no end in the period
    attempts: int = 0
    attempts_failed: int = 0
    delivered: int = 0  # distinct (message, subscription)
    delivered_bytes: int = 0  # sent by all deliveries, with duplicates and replays
    dead_lettered: int = 0  # distinct (message, subscription)
    dropped: int = 0  # distinct (message, subscription), and the counts of drops without a subscription
    fanouts_dropped: int = 0  # messages dropped before their subscriptions were found
    duplicates: int = 0  # deliveries of a (message, subscription) after its first one
    success_share: float | None = None  # delivered / (delivered + dead_lettered + dropped)
    p50_ms: int | None = None  # from publish to first delivery; at most 1/128 below the exact value
    p90_ms: int | None = None
    p99_ms: int | None = None
    p999_ms: int | None = None
    max_ms: int | None = None  # exact
    replay_matched: int | None = None
    replay_attempts: int = 0
    replay_attempts_failed: int = 0
    replayed: int = 0  # deliveries by replays
    replay_dead_lettered: int = 0
    replay_dropped: int = 0


class TimeBucket(msgspec.Struct, frozen=True, kw_only=True):
    """An hour, or a day if the period exceeds 14 days. A bucket without events has figures of 0."""

    start_ms: int
    span_ms: int
    figures: Figures


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`before`: the figures of the same row a week earlier; None if the period or the row has none."""

    name: str  # ARN of the topic or subscription, endpoint, protocol, account, or date; '': none, such as direct SMS
    topic: str = ""  # of a subscription: ARN
    protocol: str = ""  # of a subscription or endpoint
    endpoint: str = ""  # of a subscription
    figures: Figures
    before: Figures | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The rows with the most attempts, sorted. The files have all rows."""

    rows: tuple[Row, ...] = ()
    left_out: int = 0


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a queue by the service. Depths are the latest in the period; -1: unknown."""

    queue: str  # ARN
    sent: int
    received: int
    deleted: int
    moved_in: int = 0
    moved_out: int = 0
    visible: int = -1
    in_flight: int = -1
    delayed: int = -1
    oldest_age_s: int = -1


class QueueTable(msgspec.Struct, frozen=True, kw_only=True):
    """The queues with the most sent and received messages, sorted."""

    rows: tuple[QueueRow, ...] = ()
    left_out: int = 0


class RetryBin(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries by number of attempts: distinct (message, subscription)."""

    attempts: int  # 0: dropped before an attempt; 100: 100 or more
    delivered: int = 0
    dead_lettered: int = 0
    dropped: int = 0  # only drops with a subscription


class LatencyBin(msgspec.Struct, frozen=True, kw_only=True):
    """First deliveries with `from_ms <= time from publish < to_ms`. The first bin is 0–1 ms, each next one twice as
    wide, up to the last with deliveries."""

    from_ms: int
    to_ms: int
    deliveries: int


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Failed attempts of one kind, with those of replays; most first."""

    cause: str  # status, timeout, connection, …
    status: int  # HTTP; 0: no answer
    phase: str  # first, one of the retry policy's four, or unplanned
    attempts: int
    subscriptions: int  # distinct
    first_ms: int
    last_ms: int
    reason: str  # of one of them: untrusted text


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """Dropped notifications, with those of replays; most first."""

    cause: str
    events: int
    subscriptions: int  # sum; the drop of a whole fan-out counts 0, since its number is unknown
    fanouts: int  # drops of a whole fan-out
    topic: str = ""  # ARN of the topic with the most drops, and the endpoint; '': none
    endpoint: str = ""
    most: int = 0  # the part of `subscriptions` and `fanouts` that they have


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Messages moved to dead-letter queues, with those of replays; most first."""

    cause: str
    queue: str  # ARN
    messages: int
    topic: str = ""  # as of Drop
    endpoint: str = ""
    most: int = 0


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """One of the slowest first deliveries, slowest first."""

    message_id: str
    topic: str
    subscription: str
    since_publish_ms: int
    attempts: int
    at_ms: int


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive failed attempts of an endpoint, of all topics, until a success; longest first."""

    endpoint: str
    failed_from_ms: int  # the first failed attempt
    recovered_at_ms: int | None  # the next success; None: not in the period
    last_failed_ms: int
    failures: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of an account on a day, for billing, with replays and duplicates. Sorted by account and day.

    None: the requests of that day were not counted.
    """

    account: str  # owner of the topic, or caller; '': not authenticated
    day: str  # 2026-11-22, UTC
    requests: int | None = None
    errors: int | None = None  # of the requests
    request_bytes: int | None = None
    response_bytes: int | None = None
    published: int = 0  # messages
    published_bytes: int = 0
    deliveries: int = 0
    delivered_bytes: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`before`: the totals of the same span one week earlier; None without events of it."""

    period: Period
    made_at_ms: int
    first_ms: int | None = None  # the first event; None without events
    last_ms: int | None = None
    coverage: Coverage
    totals: Figures
    before: Figures | None = None
    buckets: tuple[TimeBucket, ...] = ()
    topics: Table = Table()
    subscriptions: Table = Table()
    endpoints: Table = Table()
    protocols: Table = Table()
    accounts: Table = Table()
    days: Table = Table()
    queues: QueueTable = QueueTable()
    retries: tuple[RetryBin, ...] = ()
    latency: tuple[LatencyBin, ...] = ()
    failures: tuple[Failure, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    drops: tuple[Drop, ...] = ()
    slowest: tuple[Slow, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    usage: tuple[Usage, ...] = ()
