"""What travels through CNS's internal queues: publish jobs, endpoint jobs, redeliveries.

A job names its notification by id, and carries it inline when it is small and there is only this one job. It names
subscriptions by id, never endpoints: what an endpoint is, is read when it is delivered to.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cns.notification import Notification

INLINE_BYTES_MAX = 16 * 1024
TARGETS_MAX = 100
"""Subscriptions in one endpoint job."""
PAGE_SUBSCRIPTIONS = 1_000
"""Subscriptions a producer handles between two settlements."""

PUBLISH_JOBS = "publish-jobs"
ENDPOINT_JOBS = "endpoint-jobs"
REDELIVERY = "redelivery"
QUARANTINE = "quarantine"
FIFO_PUBLISH_JOBS = "fifo-publish-jobs.fifo"
"""Publishes to FIFO topics: which is a duplicate, and which number each has, is decided where they are put in."""
FIFO_ENDPOINT_JOBS = "fifo-endpoint-jobs.fifo"
"""Of one subscription each. They stay where they are until they are delivered, and hold up what follows them."""
LANES = "lanes.fifo"
"""What could not begin: a group for each endpoint that takes too little, of which a head at a time is tried."""
INTERNAL_QUEUES = (PUBLISH_JOBS, ENDPOINT_JOBS, REDELIVERY, QUARANTINE, FIFO_PUBLISH_JOBS, FIFO_ENDPOINT_JOBS, LANES)
"""In the reserved account `cns`."""


class PublishJob(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """Fan one notification out to the subscriptions after `cursor`."""

    notification_id: str
    topic: str  # ARN
    inline: Notification | None = None
    cursor: str = ""
    waits: int = 0  # FIFO: how often it was given back because a replay has to be waited for


class EndpointJob(msgspec.Struct, frozen=True, array_like=True, tag="endpoint"):
    """Deliver one notification to up to a hundred subscriptions."""

    notification_id: str
    topic: str
    subscriptions: tuple[str, ...]  # ARNs
    inline: Notification | None = None
    sequence_number: str = ""  # FIFO topics only: the notification was stored before it had one


class ConfirmationJob(msgspec.Struct, frozen=True, array_like=True, tag="confirmation"):
    """Send a confirmation message to an endpoint: it says which subscription and how to confirm it."""

    kind: Literal["SubscriptionConfirmation", "UnsubscribeConfirmation"]
    message_id: str
    subscription: str
    topic: str
    token: str
    timestamp_ms: int
    base_url: str  # what SubscribeURL begins with


class DirectJob(msgspec.Struct, frozen=True, array_like=True, tag="direct"):
    """Deliver a message that was published to a phone number or a mobile endpoint, not to a topic."""

    notification_id: str
    account: str
    region: str
    protocol: str  # sms, application
    endpoint: str
    inline: Notification


TargetJob = EndpointJob | ConfirmationJob | DirectJob
"""Those that say whom to send to."""


class Redelivery(msgspec.Struct, frozen=True, array_like=True, tag="redelivery"):
    """One target that failed, visible when its next attempt is due; or one that lies in a lane."""

    job: TargetJob  # of one subscription, or none
    failures: int
    first_attempt_ms: int  # or when the first was to be made
    returns: int = 0  # FIFO: how often it was given back without an attempt
    ended: str = ""  # why no attempt is left: it is kept until its dead-letter queue can be reached


Job = PublishJob | EndpointJob | ConfirmationJob | DirectJob | Redelivery


def group_of(job: TargetJob) -> str:
    """By what the internal queues share their consumers: the topic, or the account that published to an endpoint."""
    return job.account if isinstance(job, DirectJob) else job.topic


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Job)


def encode(job: Job) -> bytes:
    return _encoder.encode(job)


def decode(body: bytes) -> Job:
    job: Job = _decoder.decode(body)
    return job
