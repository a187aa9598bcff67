"""Makes the context of delivery channels, as the settings say, over a backend."""

from __future__ import annotations

from cns.delivery.envelope_cache import EnvelopeContext
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.mail.rate_limit import MailRateLimit
from cns.publishing.recipient_checks import RecipientChecks
from cns.queue_port.contract import QueuePort
from cns_backend.backend import Backend
from cns_backend.urls import mail_sender
from cns_common.configuration.settings import Settings
from cns_workers.delivery.channels import ChannelContext


def channel_context(
    settings: Settings, backend: Backend, port: QueuePort, envelopes: EnvelopeContext
) -> ChannelContext:
    in_sandbox = settings.sms_sandbox == "on"
    return ChannelContext(
        port=port,
        envelopes=envelopes,
        outbox=backend.outbox,
        recipients=RecipientChecks(backend.sms, backend.mobile_endpoints, backend.platforms, in_sandbox=in_sandbox),
        mail_rate=MailRateLimit(backend.subscriptions, backend.rates, backend.clock, settings.mail_rate),
        remote_queues=RemoteQueueResolver(settings.remote_queues),
        gateway_url=settings.gateway_url,
        mail_sender=mail_sender(settings) if settings.smtp_url else "",
    )
