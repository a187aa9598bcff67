"""Publish to a phone number or a mobile endpoint: what is sent is checked, and becomes one job.

As on AWS, an SMS that its number does not want, or that the sandbox keeps back, is accepted and goes nowhere.
"""

from __future__ import annotations

from collections import Counter

from cns.authorization import check_owner
from cns.errors import invalid
from cns.limits import MESSAGE_BYTES_DEFAULT
from cns.notification import Attributes, Notification
from cns.publishing.direct_jobs import DirectJobs
from cns.publishing.message_attributes import parse_attributes, publish_bytes
from cns.publishing.message_text import DEFAULT_TEXT, check_message, check_size, check_subject, texts_of
from cns.publishing.recipient_checks import Recipients
from cns.publishing.requests import Draft, Published
from cns.push.endpoints import MobileEndpoints
from cns.push.model import text_key
from cns.sms.attributes import check_message_attributes
from cns.sms.numbers import is_number
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.events.schema import EventSink, PublishAccepted
from cns_common.ids import uuid_text

SMS_CHARS_MAX = 1_600
SMS_TEXT = "sms"
"""Its key in a message of MessageStructure=json."""


class DirectPublishing:
    """`outcomes` counts accepted messages by what became of them: sms, opted_out, not_verified, push."""

    def __init__(
        self,
        endpoints: MobileEndpoints,
        recipients: Recipients,
        jobs: DirectJobs,
        clock: Clock,
        events: EventSink,
    ) -> None:
        self._endpoints = endpoints
        self._recipients = recipients
        self._jobs = jobs
        self._clock = clock
        self._events = events
        self.outcomes: Counter[str] = Counter()

    async def to_phone(self, call: Call, number: str, draft: Draft) -> Published:
        check_subject(draft.subject)
        check_message(draft.message)
        if not is_number(number):
            raise invalid(f"PhoneNumber Reason: {number} is not valid to publish to")
        attributes, size_bytes = _attributes(draft)
        check_message_attributes(attributes)
        text = _text(draft, SMS_TEXT)
        if len(text) > SMS_CHARS_MAX:
            raise invalid("Message too long")
        notification = self._notification(call, draft, attributes, text)
        kept_back = await self._recipients.number(call.caller.account, call.region, number)
        if not kept_back:
            await self._jobs.put_sms(call, number, notification)
        self._tell(call, notification, "", size_bytes, kept_back or "sms")  # a person's number is no fact for a report
        return Published(notification.id)

    async def to_endpoint(self, call: Call, arn: str, draft: Draft) -> Published:
        check_subject(draft.subject)
        check_message(draft.message)
        attributes, size_bytes = _attributes(draft)
        found = await self._endpoints.look_up(arn) if arn.isascii() else None
        if found is None or found.application.region != call.region:
            raise invalid("TargetArn Reason: No endpoint found for the target arn specified")
        check_owner(call, found.application.account, "Publish", arn)
        if not found.application.enabled:
            raise RequestError("PlatformApplicationDisabled", "Platform application is disabled")
        if not found.endpoint.enabled:
            raise RequestError("EndpointDisabled", "Endpoint is disabled")
        text = _text(draft, text_key(arn))  # AWS reads the message's structure after the endpoint's state
        notification = self._notification(call, draft, attributes, text)
        await self._jobs.put_push(call, arn, notification)
        self._tell(call, notification, arn, size_bytes, "push")
        return Published(notification.id)

    def _notification(self, call: Call, draft: Draft, attributes: Attributes, text: str) -> Notification:
        return Notification(
            id=uuid_text(),
            topic_arn="",
            timestamp_ms=self._clock.now_ms(),
            texts={DEFAULT_TEXT: text},
            subject=draft.subject,
            attributes=attributes,
            structured=draft.structure is not None,
            trace_header=call.trace_header,
        )

    def _tell(self, call: Call, accepted: Notification, target: str, size_bytes: int, outcome: str) -> None:
        self.outcomes[outcome] += 1
        self._events.emit(
            PublishAccepted(
                at_ms=self._clock.now_ms(),
                message_id=accepted.id,
                topic=target,
                account=call.caller.account,
                size_bytes=size_bytes,
                has_subject=accepted.subject is not None,
                jobs=int(outcome in ("sms", "push")),
            )
        )


def _attributes(draft: Draft) -> tuple[Attributes, int]:
    """The message's attributes, and the bytes it is counted with."""
    attributes = parse_attributes(draft.attributes)
    size_bytes = publish_bytes(draft.message, attributes)
    check_size(size_bytes, MESSAGE_BYTES_DEFAULT)
    return attributes, size_bytes


def _text(draft: Draft, key: str) -> str:
    """What this kind of endpoint gets."""
    texts = texts_of(draft.message, draft.structure)
    return texts.get(key, texts[DEFAULT_TEXT])
