"""One attempt at one target: sent by the way of its protocol, its outcome a value."""

from __future__ import annotations

from collections.abc import Mapping

from cns.delivery.envelope import Confirmation, MessageType
from cns.delivery.gateway import Gateway
from cns.delivery.jobs import ConfirmationJob
from cns.delivery.payloads import PayloadRenderer
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.target import Target
from cns.endpoints.outcome import Outcome
from cns.mail.rate_limit import MailRateLimit
from cns.notification import Notification
from cns.publishing.recipient_checks import RecipientChecks
from cns.queue_port.contract import QueuePort
from cns.stores.contract import OutboxStore
from cns.subscriptions.subscription import MAIL_PROTOCOLS
from workers.delivery.channels import AskingWay, Attempt, GatewayWay, HttpWay, OutboxWay, QueueWay, RedisWay, Way
from workers.delivery.email_channel import MailWay
from workers.delivery.envelope_cache import Envelopes, Rendering
from workers.delivery.pool.pool import DeliveryPool
from workers.delivery.sqs_channel import AnyQueueWay

HANDED_OVER = ("lambda", "firehose", "sms", "application", "email", "email-json")
"""Protocols that this service has no way of its own for, mails unless there is a relay for them: the gateway takes
them, or the outbox keeps them."""


class Deliverer:
    """Knows nothing of jobs and retries."""

    def __init__(self, pool: DeliveryPool, queues: AnyQueueWay, ways: Mapping[str, Way]) -> None:
        """`ways` are by protocol; dead letters go to `queues`."""
        self.pool = pool
        self._queues = queues
        self._ways = ways

    @classmethod
    def build(
        cls,
        pool: DeliveryPool,
        port: QueuePort,
        rendering: Rendering,
        outbox: OutboxStore,
        recipients: RecipientChecks,
        mail_rate: MailRateLimit,
        gateway_url: str,
        places: RemoteQueueResolver,
        mail_sender: str = "",
    ) -> Deliverer:
        """`gateway_url` may be empty, and so may `mail_sender`: then there is no relay for mails."""
        envelopes = Envelopes(rendering)
        forms = PayloadRenderer(rendering.signer, rendering.base_url, rendering.mail_words)
        queues = AnyQueueWay(QueueWay(port, envelopes), pool, envelopes, places)
        http = HttpWay(pool, envelopes)
        handing_over: Way = OutboxWay(outbox, forms)
        if gateway_url:
            handing_over = GatewayWay(pool, Gateway(gateway_url, rendering.signer, rendering.base_url), forms)
        mails = handing_over
        if mail_sender:
            mails = MailWay(pool, forms, mail_sender, rendering.base_url, rendering.mail_words.footer)
        ways: dict[str, Way] = {
            **dict.fromkeys(HANDED_OVER, handing_over),
            "sms": AskingWay(handing_over, lambda target, _: recipients.phone(target)),
            "application": AskingWay(handing_over, lambda target, _: recipients.mobile_endpoint(target)),
            **dict.fromkeys(MAIL_PROTOCOLS, AskingWay(mails, mail_rate.drop_cause)),
            "http": http,
            "https": http,
            "sqs": queues,
            "redis": RedisWay(pool, envelopes),
        }
        return cls(pool, queues, ways)

    async def room(self) -> int:
        """How many more sends may begin; waits until there is one."""
        return min(await self._queues.room(), await self.pool.room())

    def traffic_key(self, target: Target) -> str:
        """What its sends share their room with; '' where there is nothing to be careful of."""
        return self._ways[target.protocol].traffic_key(target)

    def start(self, target: Target, notification: Notification) -> Attempt:
        """Begin one attempt."""
        return self._ways[target.protocol].deliver(target, notification)

    def start_confirmation(self, target: Target, job: ConfirmationJob) -> Attempt:
        confirmation = Confirmation(
            type=MessageType(job.kind),
            id=job.message_id,
            token=job.token,
            topic_arn=job.topic,
            subscription_arn=job.subscription,
            timestamp_ms=job.timestamp_ms,
            signature_version=target.signature_version,
        )
        return self._ways[target.protocol].confirm(target, confirmation, job.base_url)

    async def dead_letter(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        """Put into the subscription's dead-letter queue exactly what was to be delivered."""
        return await self._queues.send(queue_arn, target, notification)
