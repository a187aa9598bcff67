"""Makes the contexts of delivery channels, as the settings say, over a backend."""

from __future__ import annotations

from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.signing import Signer
from cns.delivery.webhook_secrets import WebhookSecrets
from cns.mail.rate_limit import MailRateLimit
from cns.mail.texts import MailBranding
from cns.publishing.recipient_checks import RecipientChecks
from cns.queue_port.contract import QueuePort
from cns_backend.backend import Backend
from cns_backend.urls import mail_sender
from cns_common.configuration.settings import Settings
from cns_workers.delivery.channels import ChannelContext
from cns_workers.delivery.envelope_cache import EnvelopeContext


async def envelope_context(settings: Settings, backend: Backend, base_url: str) -> EnvelopeContext:
    """`base_url` is the beginning of the links in messages."""
    identity = await backend.signing_keys.identity(backend.clock.real_ms())
    words = MailBranding(sender_name=settings.mail_sender_name, footer=settings.mail_footer)
    secrets = WebhookSecrets(await backend.receipt_keys.receipt_key(), backend.clock)
    return EnvelopeContext(signer=Signer(identity), base_url=base_url, mail_words=words, webhook_secrets=secrets)


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
