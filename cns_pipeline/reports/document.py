"""The report as one document: what the page draws, the terminal shows, and `report.json` has.

All figures are of events with `since_ms <= at_ms < until_ms`, and of notifications: confirmations are left out. Times
are in ms since the epoch, spans in ms. Reasons and hosts are foreign text: escape them before they are shown.
"""

from __future__ import annotations

import msgspec

from cns_pipeline.period import Period


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The completeness of the report: events that it has, and events that are missing or unreadable."""

    events: int = 0  # of the period, of all kinds
    unknown: int = 0  # numbers without an event: never written, or removed before they were ingested
    malformed: int = 0  # lines of the whole table that are no events; they have no time
    newer: int = 0  # lines of the whole table that a newer version of the service wrote
    malformed_files: tuple[str, ...] = ()  # the first ones


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Replays are left out of all figures but those that begin with `replay`. None: not known at this level."""

    accepted: int | None = None  # messages published; of a subscription and an endpoint's topic not known
    accepted_bytes: int | None = None
    matched: int | None = None  # deliveries that the accepted messages are to have
    filtered: int | None = None  # deliveries that filter policies prevented
    pending: int | None = None  # matched deliveries of messages accepted in the period that did not end in it
    retrying: int = 0  # (message, subscription) that failed in the period, and did not end in it
    attempts: int = 0
    attempts_failed: int = 0
    delivered: int = 0  # distinct (message, subscription)
    delivered_bytes: int = 0  # sent by all deliveries, with duplicates and replays
    dead_lettered: int = 0  # distinct (message, subscription)
    dropped: int = 0  # distinct (message, subscription), and the subscriptions of drops that name none
    fanouts_dropped: int = 0  # messages given up before an unknown number of subscriptions was found
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
    """An hour, or a day in a period above 14 days. Buckets without events are there, too, with figures of 0."""

    start_ms: int
    span_ms: int
    figures: Figures


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`before` has the figures of the same row a week earlier; None if the period has none or the row was not there."""

    name: str  # ARN of the topic or subscription, endpoint, protocol, account, or date; '': none, such as direct SMS
    topic: str = ""  # of a subscription: ARN
    protocol: str = ""  # of a subscription or endpoint
    endpoint: str = ""  # of a subscription
    figures: Figures
    before: Figures | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The rows with the most attempts, most first. The files have all."""

    rows: tuple[Row, ...] = ()
    left_out: int = 0


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a queue by the service. Depths are the latest of the period; -1: unknown."""

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
    """The queues with the most messages sent and received, most first."""

    rows: tuple[QueueRow, ...] = ()
    left_out: int = 0


class RetryBin(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that ended after so many attempts: distinct (message, subscription)."""

    attempts: int  # 0: given up without one; 100: so many or more
    delivered: int = 0
    dead_lettered: int = 0
    dropped: int = 0  # only drops that name their subscription


class LatencyBin(msgspec.Struct, frozen=True, kw_only=True):
    """First deliveries with `from_ms <= time from publish < to_ms`. Bins are 0–1 ms and then double; all are there up
    to the last that has any."""

    from_ms: int
    to_ms: int
    deliveries: int


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Failed attempts of one kind, those of replays too; most first."""

    cause: str  # status, timeout, connection, …
    status: int  # HTTP; 0: no answer
    phase: str  # first, one of the retry policy's four, or unplanned
    attempts: int
    subscriptions: int  # distinct
    first_ms: int
    last_ms: int
    reason: str  # of one of them: foreign text


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications given up, those of replays too; most first."""

    cause: str
    events: int
    subscriptions: int  # sum; the drops of whole fan-outs have an unknown number and count 0
    fanouts: int  # drops of a whole fan-out
    topic: str = ""  # ARN of the topic, and the endpoint, that have the most of them; '': none
    endpoint: str = ""
    most: int = 0  # how many of `subscriptions` and `fanouts` these have


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Messages moved to dead-letter queues, those of replays too; most first."""

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
    """A run of failed attempts of an endpoint, of all topics, between two successes; the longest runs first."""

    endpoint: str
    failed_from_ms: int  # the first failed attempt
    recovered_at_ms: int | None  # the next success; None: not in the period
    last_failed_ms: int
    failures: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of an account on a day, for billing; replays and duplicates are deliveries too. By account and day.

    None: nobody's requests were counted on that day.
    """

    account: str  # of the topic's owner or the caller; '': not authenticated
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
    """`before` are the totals of the same span one week earlier; None if the table has no event of it."""

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
