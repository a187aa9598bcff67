"""Makes the senders of a pool's thread, as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.contract import Request, Sender, Senders
from cns.endpoints.http import EndpointRequest, HttpSender
from cns.endpoints.smtp import SmtpRequest, SmtpSender
from cns.endpoints.sqs import RemoteQueueRequest, RemoteQueueSender
from cns.mail.message import domain_of
from cns.protocols.table import PROTOCOLS
from cns_backend.urls import mail_sender
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.configuration.smtp_url import read_smtp_url
from cns_common.tls import client_context


def sender_factory(settings: Settings, clock: Clock) -> Callable[[], Senders]:
    guard = AddressGuard(settings.networks(), by_name=settings.names_go_to_proxy)
    proxy = settings.egress()
    verify = client_context(settings.ca_bundle)
    relay = read_smtp_url(settings.smtp_url) if settings.smtp_url else None
    timeout_s = settings.delivery_timeout_s

    def wall_s() -> float:
        return clock.real_ms() / 1000

    def make_senders() -> Senders:
        http = HttpSender(guard, timeout_s=timeout_s, wall_s=wall_s, verify=verify, proxy=proxy)
        senders: dict[type[Request], Sender[Any]] = {
            EndpointRequest: http,
            RemoteQueueRequest: RemoteQueueSender(http, clock.real_ms),
        }
        for protocol in PROTOCOLS.values():
            if protocol.request_type is not None:
                sender = protocol.sender(guard, timeout_s=timeout_s, verify=verify, proxy=proxy)
                senders[protocol.request_type] = sender
        if relay is not None:
            senders[SmtpRequest] = SmtpSender(
                relay,
                connections=settings.smtp_connections,
                timeout_s=timeout_s,
                verify=verify,
                hello=domain_of(mail_sender(settings)),
            )
        return Senders(senders)

    return make_senders
