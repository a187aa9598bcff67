"""One attempt at one target: the request made, sent through a pool or the queue port, and its outcome judged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cns.endpoints.http import HttpRequest
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.envelope import (
    Confirmation,
    Envelope,
    MessageType,
    http_headers,
    signed_confirmation,
    signed_envelope,
    unsubscribe_url,
)
from cns.jobs import ConfirmationJob
from cns.model import Notification
from cns.queue_port import QueueMessage, QueuePort, Refused
from cns.signing import Signer
from cns.target import Target
from common.bounded import Bounded
from common.errors import OutcomeUnknown, StoreUnavailable
from workers.pools import DeliveryPool

ENVELOPES_REMEMBERED = 256
RAW_ATTRIBUTES_MAX = 10
"""SQS takes no more attributes; a raw delivery with more fails as the client's error (sns.md §8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What the bodies need besides the notification."""

    signer: Signer
    base_url: str


class Deliverer:
    """Makes and sends requests; knows nothing of jobs and retries."""

    def __init__(self, pool: DeliveryPool, port: QueuePort, rendering: Rendering) -> None:
        self._pool = pool
        self._port = port
        self._rendering = rendering
        self._envelopes: Bounded[tuple[str, str], Envelope] = Bounded(ENVELOPES_REMEMBERED)
        self._signing: dict[tuple[str, str], asyncio.Future[Envelope]] = {}

    @property
    def pool(self) -> DeliveryPool:
        return self._pool

    def start(self, target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        """Begin one attempt."""
        if target.protocol == "sqs":
            return asyncio.ensure_future(self._to_queue(target.endpoint, target, notification))
        return self._pool.send(lambda: self._http_request(target, notification))

    def start_confirmation(self, target: Target, job: ConfirmationJob) -> asyncio.Future[Outcome]:
        confirmation = Confirmation(
            type=MessageType(job.kind),
            id=job.message_id,
            token=job.token,
            topic_arn=job.topic,
            subscription_arn=job.subscription,
            timestamp_ms=job.timestamp_ms,
            signature_version=target.signature_version,
        )
        if target.protocol == "sqs":
            body = signed_confirmation(confirmation, self._rendering.signer, job.base_url).decode()
            return asyncio.ensure_future(self._put(target.endpoint, QueueMessage(body), job.topic))
        return self._pool.send(lambda: self._confirmation_request(target, confirmation, job.base_url))

    async def dead_letter(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        """Put into the subscription's dead-letter queue exactly what was to be delivered."""
        return await self._to_queue(queue_arn, target, notification)

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    def _http_request(self, target: Target, notification: Notification) -> HttpRequest:
        headers = http_headers(
            MessageType.NOTIFICATION,
            notification.id,
            notification.topic_arn,
            target.arn,
            target.content_type,
            raw=target.raw,
        )
        return HttpRequest(target.endpoint, headers, self._body(target, notification))

    def _confirmation_request(self, target: Target, confirmation: Confirmation, base_url: str) -> HttpRequest:
        headers = http_headers(
            confirmation.type,
            confirmation.id,
            confirmation.topic_arn,
            confirmation.subscription_arn,
            target.content_type,
        )
        body = signed_confirmation(confirmation, self._rendering.signer, base_url)
        return HttpRequest(target.endpoint, headers, body)

    def _body(self, target: Target, notification: Notification) -> bytes:
        if target.raw:
            return notification.text_for(target.protocol).encode()
        key = _envelope_key(target, notification)
        envelope = self._envelopes.get(key) or self._sign(key, target.protocol, notification)
        return envelope.body(unsubscribe_url(self._rendering.base_url, target.arn))

    def _sign(self, key: tuple[str, str], protocol: str, notification: Notification) -> Envelope:
        envelope = signed_envelope(notification, protocol, self._rendering.signer, self._rendering.base_url)
        self._envelopes.put(key, envelope)
        return envelope

    async def _sign_beside(self, target: Target, notification: Notification) -> None:
        """Have the envelope made in a thread: a signature takes longer than all else, and lets other threads run."""
        key = _envelope_key(target, notification)
        if self._envelopes.get(key) is not None:
            return
        signing = self._signing.get(key)
        if signing is None:
            signing = self._signing[key] = asyncio.ensure_future(
                asyncio.to_thread(self._sign, key, target.protocol, notification)
            )
            signing.add_done_callback(lambda _: self._signing.pop(key))
        await asyncio.shield(signing)

    # -- queues -------------------------------------------------------------------------------------------------------

    async def _to_queue(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        if target.raw:
            if len(notification.attributes) > RAW_ATTRIBUTES_MAX and target.protocol == "sqs":
                return Failed(Cause.QUEUE, "more than 10 attributes in a raw delivery", 0, permanent=True)
            message = QueueMessage(
                notification.text_for(target.protocol),
                target.queue_attributes(notification),
                group=notification.message_group_id,
                trace_header=notification.trace_header,
            )
        else:
            await self._sign_beside(target, notification)
            body = self._body(target, notification).decode()
            message = QueueMessage(body, group=notification.message_group_id, trace_header=notification.trace_header)
        return await self._put(queue_arn, message, notification.topic_arn)

    async def _put(self, queue_arn: str, message: QueueMessage, topic: str) -> Outcome:
        started_s = asyncio.get_running_loop().time()
        try:
            answer = await self._port.deliver(queue_arn, message, topic)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.QUEUE, str(error), _since_ms(started_s))
        if isinstance(answer, Refused):
            return Failed(
                Cause.QUEUE, f"{answer.code}: {answer.text}", _since_ms(started_s), permanent=answer.permanent
            )
        return Delivered(200, _since_ms(started_s), answer)


def _envelope_key(target: Target, notification: Notification) -> tuple[str, str]:
    return (notification.id, notification.text_for(target.protocol))


def _since_ms(started_s: float) -> int:
    return int((asyncio.get_running_loop().time() - started_s) * 1000)
