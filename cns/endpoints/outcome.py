"""The outcome of one attempt, as a value: failures of endpoints are expected, so they are not raised."""

from __future__ import annotations

from enum import StrEnum

import msgspec

RESPONSE_CHARS_MAX = 1_024
"""Characters kept of an endpoint's response."""


class Cause(StrEnum):
    """Why an attempt failed."""

    STATUS = "status"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TLS = "tls"
    DNS = "dns"
    MAIL_REFUSED = "mail_refused"  # the relay refuses the mail or its recipient
    MAIL_RELAY = "mail_relay"  # the relay refuses this service
    MAIL_RATE = "mail_rate"  # the subscription's mail rate limit
    EGRESS_PROXY = "egress_proxy"  # the egress proxy is away, or refuses this service
    EGRESS_ROUTE = "egress_route"  # it does not connect to this endpoint
    REFUSED_ADDRESS = "refused_address"
    INVALID_URL = "invalid_url"
    QUEUE = "queue"
    OUTBOX = "outbox"
    STORE = "store"
    WORKER = "worker"
    OPTED_OUT = "opted_out"
    NOT_VERIFIED = "not_verified"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_GONE = "endpoint_gone"


EGRESS = frozenset({Cause.EGRESS_PROXY, Cause.EGRESS_ROUTE})
"""Failures before the endpoint: they say nothing about it."""


class Delivered(msgspec.Struct, frozen=True):
    status: int
    dwell_ms: int
    provider_id: str = ""  # message id in the queue
    response: str = ""  # the endpoint's text beside its status
    size_bytes: int = 0  # of the body that was sent
    repeats: Failed | None = None  # the post before it, on an idle connection that the endpoint closed


class Failed(msgspec.Struct, frozen=True):
    """`permanent`: no later attempt can succeed. `code` is the error code of a queue."""

    cause: Cause
    text: str
    dwell_ms: int
    status: int = 0
    permanent: bool = False
    retry_after_s: float = 0.0
    response: str = ""  # as in Delivered
    code: str = ""
    size_bytes: int = 0  # as in Delivered, with a status that may count as delivered
    repeats: Failed | None = None  # as in Delivered

    @property
    def is_client_error(self) -> bool:
        """Whether it is a 3xx or 4xx answer that no retry follows; `permanent_4xx=aws` counts those as delivered."""
        return self.permanent and self.cause is Cause.STATUS


Outcome = Delivered | Failed
