"""The results of the health job, for the page, the terminal and `health.json`."""

from __future__ import annotations

from typing import Literal

import msgspec


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A period in which an endpoint failed or was slow, compared with its own history."""

    endpoint: str
    state: Literal["failing", "slow"]
    from_ms: int
    until_ms: int
    attempts: int  # in the slots that were judged unhealthy
    failed: int
    p50_ms: int | None  # time to an answer that accepted the message
    expected_share: float | None  # share of failed attempts by history; None without a history
    expected_p50_ms: int | None
    cause: str | None  # of the most failures
    status: int | None
    reason: str | None  # the text of one of the failures


class EndpointTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The share of failed attempts in each slot of the period; None in a slot without attempts."""

    endpoint: str
    attempts: int
    failed: int
    shares: tuple[float | None, ...]


class HourOfDay(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a measure at an hour of the day (0 to 23, UTC), of all topics, queues or endpoints together."""

    kind: str  # topic, queue, endpoint
    measure: str
    hour: int
    per_second: float


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The results for events with `since_ms <= at_ms < until_ms`."""

    since_ms: int
    until_ms: int
    made_at_ms: int
    slot_ms: int
    history_days: int  # before the period, with at least one attempt
    endpoints: int  # with attempts in the period
    incidents: tuple[Incident, ...]  # most failures or attempts first
    incidents_left_out: int
    timelines: tuple[EndpointTimeline, ...]  # of the endpoints with the most failures
    by_hour: tuple[HourOfDay, ...]
    by_hour_days: int  # number of days in the mean
