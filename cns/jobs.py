"""What travels through CNS's internal queues: publish jobs, endpoint jobs, redeliveries.

A job names its notification by id, and carries it inline when it is small and there is only this one job. It names
subscriptions by id, never endpoints: what an endpoint is, is read when it is delivered to.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cns.model import Notification

INLINE_BYTES_MAX = 16 * 1024
TARGETS_MAX = 100
"""Subscriptions in one endpoint job."""
PAGE_SUBSCRIPTIONS = 1_000
"""Subscriptions a producer handles between two settlements."""

PUBLISH_JOBS = "publish-jobs"
ENDPOINT_JOBS = "endpoint-jobs"
REDELIVERY = "redelivery"
QUARANTINE = "quarantine"
INTERNAL_QUEUES = (PUBLISH_JOBS, ENDPOINT_JOBS, REDELIVERY, QUARANTINE)
"""In the reserved account `cns`."""


class PublishJob(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """Fan one notification out to the subscriptions after `cursor`."""

    notification_id: str
    topic: str  # ARN
    inline: Notification | None = None
    cursor: str = ""


class EndpointJob(msgspec.Struct, frozen=True, array_like=True, tag="endpoint"):
    """Deliver one notification to up to a hundred subscriptions."""

    notification_id: str
    topic: str
    subscriptions: tuple[str, ...]  # ARNs
    inline: Notification | None = None


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


class Redelivery(msgspec.Struct, frozen=True, array_like=True, tag="redelivery"):
    """One failed target, visible when its next attempt is due."""

    job: EndpointJob | ConfirmationJob | DirectJob  # of one subscription, or none
    failures: int
    first_attempt_ms: int


Job = PublishJob | EndpointJob | ConfirmationJob | DirectJob | Redelivery

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Job)


def encode(job: Job) -> bytes:
    return _encoder.encode(job)


def decode(body: bytes) -> Job:
    job: Job = _decoder.decode(body)
    return job
