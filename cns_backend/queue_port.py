"""Chooses the driver of the queue port, and the key that CNS signs its calls to CQS with."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

from cns.queue_port.contract import QueuePort
from cns.queue_port.inline import InlineQueuePort
from cns.queue_port.sqs_delivery import QueueDeliverer
from cns.queue_port.sqs_requests import SqsService
from cns_backend.backend import Backend
from cns_backend.urls import local_url
from cns_common.aws.auth.accounts import AccessKey
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.configuration.settings import Settings
from cns_common.tls import client_context
from cqs.service import QueueService


async def queue_port(settings: Settings, backend: Backend, queues: QueueService) -> QueuePort:
    """The driver that the settings name. `queues` is this process's own queue service; the http driver ignores it."""
    if settings.queue_port == "inline":
        deliverer = QueueDeliverer(queues, enforced=settings.auth == "on")
        return InlineQueuePort(backend.engine, backend.clock, deliverer.deliver)
    from cns.queue_port.http import HttpQueuePort  # httpx is imported only when it is needed
    from cns.queue_port.http_client import QueueClient

    agreed = _agreed_key(settings)
    own = await backend.accounts.internal_key(backend.clock.now_ms())
    key = agreed or own
    service = SqsService(settings.queue_url or local_url(settings), key.key_id, key.secret)
    tls = client_context(settings.ca_bundle) if settings.queue_url else _own_certificate(settings)
    client = QueueClient(service, settings.region, backend.clock, tls=tls)
    # With an agreed key, CQS has another data directory, and other CNS services may use it: the random key of its own
    # data directory identifies this one.
    return HttpQueuePort(client, space="" if agreed is None else own.key_id)


async def access_keys(settings: Settings, backend: Backend) -> list[AccessKey]:
    """All keys that may sign calls."""
    await backend.accounts.internal_key(backend.clock.now_ms())  # creates the key at the first start
    agreed = _agreed_key(settings)
    return await backend.accounts.keys() + ([] if agreed is None else [agreed])


def _agreed_key(settings: Settings) -> AccessKey | None:
    if not settings.queue_key_id:
        return None
    return AccessKey(INTERNAL_ACCOUNT, settings.queue_key_id, settings.queue_secret, 0)


def _own_certificate(settings: Settings) -> ssl.SSLContext | None:
    """Trust only the certificate of this service, whatever host name it has."""
    if settings.tls_cert is None:
        return None
    context = _CurrentCertificate(ssl.PROTOCOL_TLS_CLIENT)
    context.path = settings.tls_cert
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(settings.tls_cert)
    return context


class _CurrentCertificate(ssl.SSLContext):
    """Trusts the certificate that the file has when a connection begins, and its predecessors: the service may not have
    read it yet."""

    path: Path

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        with suppress(OSError):  # half written
            self.load_verify_locations(self.path)
        return super().wrap_bio(*args, **options)
