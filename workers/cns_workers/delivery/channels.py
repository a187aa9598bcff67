"""The table of delivery channels by protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from cns.delivery.envelope import ConfirmationNotice, MessageType
from cns.delivery.envelope_cache import EnvelopeCache, EnvelopeContext
from cns.delivery.gateway import Gateway
from cns.delivery.jobs import ConfirmationJob
from cns.delivery.payloads import PayloadRenderer
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause
from cns.mail.rate_limit import MailRateLimit
from cns.notification import Notification
from cns.protocols.contract import DeliveryCheck, Transport
from cns.protocols.table import PROTOCOLS
from cns.publishing.recipient_checks import RecipientChecks
from cns.queue_port.contract import QueuePort
from cns.stores.contract import OutboxStore
from cns_workers.delivery.channel import Channel
from cns_workers.delivery.email_channel import EmailChannel
from cns_workers.delivery.http_channel import BodyChannel, HttpChannel
from cns_workers.delivery.outbox_channel import GatewayChannel, OutboxChannel, RecipientCheckChannel
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.sqs_channel import SqsChannel


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelContext:
    """The dependencies of the channels of all pools."""

    port: QueuePort
    envelopes: EnvelopeContext
    outbox: OutboxStore
    recipients: RecipientChecks
    mail_rate: MailRateLimit
    remote_queues: RemoteQueueResolver
    gateway_url: str = ""
    """Empty: there is no gateway."""
    mail_sender: str = ""
    """The address that mails come from. Empty: there is no relay."""


class Channels:
    """The channels of one pool. They know nothing of jobs and retries."""

    def __init__(self, pool: DeliveryPool, queues: SqsChannel, by_protocol: Mapping[str, Channel]) -> None:
        self.by_protocol = by_protocol
        self.queues = queues
        """Dead letters go there."""
        self._pool = pool

    async def room(self) -> int:
        """Wait until a send may start. Returns how many may."""
        return min(await self.queues.room(), await self._pool.room())


def build_channels(pool: DeliveryPool, context: ChannelContext) -> Channels:
    signer, base_url = context.envelopes.signer, context.envelopes.base_url
    envelopes = EnvelopeCache(context.envelopes)
    payloads = PayloadRenderer(signer, base_url, context.envelopes.mail_words)
    queues = SqsChannel(context.port, pool, envelopes, context.remote_queues)
    outbox: Channel = OutboxChannel(context.outbox, payloads)
    if context.gateway_url:
        outbox = GatewayChannel(pool, Gateway(context.gateway_url, signer, base_url), payloads)
    mails = outbox
    if context.mail_sender:
        mails = EmailChannel(pool, payloads, context.mail_sender, base_url, context.envelopes.mail_words.footer)
    transports: dict[Transport, Channel] = {
        Transport.HTTP: HttpChannel(pool, envelopes),
        Transport.QUEUE: queues,
        Transport.OUTBOX: outbox,
        Transport.MAIL: mails,
    }
    checks: dict[DeliveryCheck, Callable[[Target, Notification], Awaitable[Cause | None]]] = {
        DeliveryCheck.PHONE: lambda target, _: context.recipients.phone(target),
        DeliveryCheck.MOBILE_ENDPOINT: lambda target, _: context.recipients.mobile_endpoint(target),
        DeliveryCheck.MAILBOX: context.mail_rate.drop_cause,
    }
    by_protocol: dict[str, Channel] = {}
    for name, protocol in PROTOCOLS.items():
        channel = transports.get(protocol.transport) or BodyChannel(pool, envelopes, protocol)
        check = protocol.delivery_check
        by_protocol[name] = channel if check is None else RecipientCheckChannel(channel, checks[check])
    return Channels(pool, queues, by_protocol)


def confirmation_of(job: ConfirmationJob, target: Target) -> ConfirmationNotice:
    return ConfirmationNotice(
        type=MessageType(job.kind),
        id=job.message_id,
        token=job.token,
        topic_arn=job.topic,
        subscription_arn=job.subscription,
        timestamp_ms=job.timestamp_ms,
        signature_version=target.signature_version,
    )
