"""The jobs in CNS's internal queues: publish jobs, endpoint jobs, redeliveries.

A job names its notification by id, and carries it inline when it is small and the only job of the notification. It
names subscriptions, never endpoints: the endpoint is read at delivery.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from cns.notification import Notification

INLINE_BYTES_MAX = 16 * 1024
TARGETS_MAX = 100
"""Subscriptions in one endpoint job."""
PAGE_SUBSCRIPTIONS = 1_000
"""Subscriptions that a producer handles between two settlements."""

PUBLISH_JOBS = "publish-jobs"
ENDPOINT_JOBS = "endpoint-jobs"
REDELIVERY = "redelivery"
QUARANTINE = "quarantine"
FIFO_PUBLISH_JOBS = "fifo-publish-jobs.fifo"
"""Publishes to FIFO topics. The queue recognises duplicates and gives the sequence numbers."""
FIFO_ENDPOINT_JOBS = "fifo-endpoint-jobs.fifo"
"""Jobs of one subscription each. A job stays here until it is delivered, and blocks the jobs of its group behind it."""
LANES = "lanes.fifo"
"""Deferred deliveries (ADR 0010): a group for each slow or failing endpoint, of which the head is tried."""
INTERNAL_QUEUES = (PUBLISH_JOBS, ENDPOINT_JOBS, REDELIVERY, QUARANTINE, FIFO_PUBLISH_JOBS, FIFO_ENDPOINT_JOBS, LANES)
"""All of them, in the reserved account `cns`."""


class PublishJob(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """Fan one notification out to the subscriptions after `cursor`."""

    notification_id: str
    topic: str  # ARN
    inline: Notification | None = None
    cursor: str = ""
    waits: int = 0  # its leases before its last progress, a page; FIFO: how often it was returned to wait for a replay
    topic_id: str = ""  # of the topic that accepted it; '' in jobs of earlier versions

    @property
    def stored_id(self) -> str:
        """The id of the stored notification that the job refers to, or ''."""
        return self.notification_id if self.inline is None else ""


class EndpointJob(msgspec.Struct, frozen=True, array_like=True, tag="endpoint"):
    """Deliver one notification to at most TARGETS_MAX subscriptions."""

    notification_id: str
    topic: str
    subscriptions: tuple[str, ...]  # ARNs
    inline: Notification | None = None
    sequence_number: str = ""  # FIFO topics only: a stored notification has none


class ConfirmationJob(msgspec.Struct, frozen=True, array_like=True, tag="confirmation"):
    """Send a confirmation message to an endpoint."""

    kind: Literal["SubscriptionConfirmation", "UnsubscribeConfirmation"]
    message_id: str
    subscription: str
    topic: str
    token: str
    timestamp_ms: int
    base_url: str  # the beginning of SubscribeURL


class DirectJob(msgspec.Struct, frozen=True, array_like=True, tag="direct"):
    """Deliver a message that was published to a phone number or a mobile endpoint, not to a topic."""

    notification_id: str
    account: str
    region: str
    protocol: str  # sms, application
    endpoint: str
    inline: Notification


TargetJob = EndpointJob | ConfirmationJob | DirectJob
"""Jobs that name their targets."""


class Redelivery(msgspec.Struct, frozen=True, array_like=True, tag="redelivery"):
    """One target after a failed attempt, visible when the next attempt is due; or one deferred to a lane."""

    job: TargetJob  # of one subscription, or none
    failures: int
    first_attempt_ms: int  # or the time at which the first attempt was due
    returns: int = 0  # FIFO: its leases that ended as they should, without an attempt
    ended: str = ""  # why no attempt is left; the job waits until its dead-letter queue is reachable
    crashed: bool = False  # the worker's code crashed on it, in a job of several targets or in a lane
    egress_ms: int = 0  # when its last attempts began to fail before the endpoint, at the egress proxy


Job = PublishJob | EndpointJob | ConfirmationJob | DirectJob | Redelivery


def group_of(job: TargetJob) -> str:
    """The fairness group: the topic, or the account that published to an endpoint itself."""
    return job.account if isinstance(job, DirectJob) else job.topic


def lane_name(of: str) -> str:
    """The lane of an endpoint (its traffic key) or of a subscription (its ARN)."""
    return blake2b(of.encode(), digest_size=16).hexdigest()


def own_queues_group(topic_arn: str) -> str:
    """The group of jobs for several subscribed queues of this service, which a commit could not deliver to."""
    return f"{topic_arn} queues"


def groups_of_queue_jobs(subscription: str) -> tuple[tuple[str, str], ...]:
    """Queues and groups in which jobs wait for a subscribed queue of this service alone."""
    return ((ENDPOINT_JOBS, subscription), (REDELIVERY, subscription), (LANES, lane_name(subscription)))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Job)


def encode(job: Job) -> bytes:
    return _encoder.encode(job)


def decode(body: bytes) -> Job:
    job: Job = _decoder.decode(body)
    return job
