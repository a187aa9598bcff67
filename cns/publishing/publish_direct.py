"""Publish to a phone number or a mobile endpoint: checks the request and enqueues one job.

As on AWS, an SMS to a number that opted out or that the sandbox blocks is accepted and dropped.
"""

from __future__ import annotations

from collections import Counter

from cns.authorization import check_owner
from cns.delivery import jobs
from cns.delivery.envelope import MessageType
from cns.delivery.failure_causes import End
from cns.delivery.jobs import DirectJob
from cns.endpoints.outcome import Cause
from cns.errors import invalid_parameter
from cns.limits import MESSAGE_BYTES_DEFAULT
from cns.notification import Attributes, Notification
from cns.publishing.message_attributes import parse_attributes, publish_bytes
from cns.publishing.message_text import DEFAULT_TEXT, check_message, check_size, check_subject, text_under, texts_of
from cns.publishing.recipient_checks import RecipientChecks
from cns.publishing.requests import PublishRequest, PublishResult
from cns.push.endpoints import MobileEndpoints
from cns.push.model import text_key
from cns.queue_port.contract import NewJob, QueuePort
from cns.sms.attributes import check_message_attributes
from cns.sms.numbers import is_number
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.events.schema import EventSink, NotificationDropped, PublishAccepted
from cns_common.ids import uuid_text
from cns_common.store_keys import KEY_CHARS_MAX

SMS_CHARS_MAX = 1_600
SMS_TEXT = "sms"
"""Key of the SMS text in a message of MessageStructure=json."""


class DirectJobs:
    """Enqueues jobs for one phone number or one mobile endpoint. They are durable when a call returns."""

    def __init__(self, queue: QueuePort) -> None:
        self._queue = queue

    async def enqueue_sms(self, call: Call, number: str, notification: Notification) -> None:
        await self._enqueue(call, "sms", number, notification)

    async def enqueue_push(self, call: Call, endpoint_arn: str, notification: Notification) -> None:
        await self._enqueue(call, "application", endpoint_arn, notification)

    async def _enqueue(self, call: Call, protocol: str, endpoint: str, notification: Notification) -> None:
        job = DirectJob(notification.id, call.caller.account, call.region, protocol, endpoint, notification)
        await self._queue.enqueue([NewJob(jobs.ENDPOINT_JOBS, notification.id, jobs.encode(job), jobs.group_of(job))])


class DirectPublisher:
    """`outcomes` counts accepted messages: sms, push, opted_out, not_verified."""

    def __init__(
        self,
        endpoints: MobileEndpoints,
        recipients: RecipientChecks,
        direct_jobs: DirectJobs,
        clock: Clock,
        events: EventSink,
    ) -> None:
        self._endpoints = endpoints
        self._recipients = recipients
        self._direct_jobs = direct_jobs
        self._clock = clock
        self._events = events
        self.outcomes: Counter[str] = Counter()

    async def to_phone(self, call: Call, number: str, request: PublishRequest) -> PublishResult:
        check_subject(request.subject)
        check_message(request.message)
        if not is_number(number):
            raise invalid_parameter(f"PhoneNumber Reason: {number} is not valid to publish to")
        attributes, size_bytes = _attributes(request)
        check_message_attributes(attributes)
        texts = texts_of(request.message, request.structure)
        text = texts.get(SMS_TEXT, texts[DEFAULT_TEXT])
        if len(text) > SMS_CHARS_MAX:
            raise invalid_parameter("Message too long")
        notification = self._notification(call, request, attributes, text)
        refused = await self._recipients.number(call.caller.account, call.region, number)
        if not refused:
            await self._direct_jobs.enqueue_sms(call, number, notification)
        self._emit_accepted(call, notification, "", size_bytes, refused or "sms")
        if refused:
            self._emit_drop(call, notification, refused)
        return PublishResult(notification.id)

    async def to_endpoint(self, call: Call, arn: str, request: PublishRequest) -> PublishResult:
        check_subject(request.subject)
        check_message(request.message)
        attributes, size_bytes = _attributes(request)
        found = await self._endpoints.look_up(arn) if arn.isascii() and len(arn) <= KEY_CHARS_MAX else None
        if found is None or found.application.region != call.region:
            raise invalid_parameter("TargetArn Reason: No endpoint found for the target arn specified")
        check_owner(call, found.application.account, "Publish", arn)
        if not found.application.enabled:
            raise RequestError("PlatformApplicationDisabled", "Platform application is disabled")
        if not found.endpoint.enabled:
            raise RequestError("EndpointDisabled", "Endpoint is disabled")
        # AWS checks the message structure after the state of the endpoint. It needs a default only where the endpoint
        # has no text of its own.
        text = text_under(text_key(arn), request.message, request.structure)
        if text is None:
            text = texts_of(request.message, request.structure)[DEFAULT_TEXT]
        notification = self._notification(call, request, attributes, text)
        await self._direct_jobs.enqueue_push(call, arn, notification)
        self._emit_accepted(call, notification, arn, size_bytes, "push")
        return PublishResult(notification.id)

    def _notification(self, call: Call, request: PublishRequest, attributes: Attributes, text: str) -> Notification:
        return Notification(
            id=uuid_text(),
            topic_arn="",
            timestamp_ms=self._clock.now_ms(),
            texts={DEFAULT_TEXT: text},
            subject=request.subject,
            attributes=attributes,
            structured=request.structure is not None,
            trace_header=call.trace_header,
            trace_context=call.trace_context,
        )

    def _emit_accepted(self, call: Call, accepted: Notification, target: str, size_bytes: int, outcome: str) -> None:
        self.outcomes[outcome] += 1
        jobs = int(outcome in ("sms", "push"))
        self._events.emit(
            PublishAccepted(
                at_ms=self._clock.now_ms(),
                message_id=accepted.id,
                topic=target,  # '' for a phone number, which is personal data and stays out of events
                account=call.caller.account,
                size_bytes=size_bytes,
                has_subject=accepted.subject is not None,
                jobs=jobs,
                matched=1,  # the recipient: delivered, or dropped below
            )
        )

    def _emit_drop(self, call: Call, accepted: Notification, cause: Cause) -> None:
        """As the worker does where a subscription's number gets nothing."""
        self._events.emit(
            NotificationDropped(
                at_ms=self._clock.now_ms(),
                message_id=accepted.id,
                message_type=MessageType.NOTIFICATION.value,
                topic="",
                subscription="",
                attempt=0,
                cause=f"{End.PERMANENT}:{cause}",
                protocol="sms",
                account=call.caller.account,
            )
        )


def _attributes(request: PublishRequest) -> tuple[Attributes, int]:
    """The checked attributes, and the size of message and attributes in bytes."""
    attributes = parse_attributes(request.attributes)
    size_bytes = publish_bytes(request.message, attributes)
    check_size(size_bytes, MESSAGE_BYTES_DEFAULT)
    return attributes, size_bytes
