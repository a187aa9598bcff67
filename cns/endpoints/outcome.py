"""What came of one attempt, as a value: failures of endpoints are expected, and nothing to raise."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Cause(StrEnum):
    """Why an attempt failed."""

    STATUS = "status"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TLS = "tls"
    DNS = "dns"
    REFUSED_ADDRESS = "refused_address"
    INVALID_URL = "invalid_url"
    QUEUE = "queue"
    OUTBOX = "outbox"
    STORE = "store"
    GONE = "subscription_gone"
    OPTED_OUT = "opted_out"
    NOT_VERIFIED = "not_verified"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_GONE = "endpoint_gone"


class Delivered(msgspec.Struct, frozen=True):
    status: int
    dwell_ms: int
    provider_id: str = ""  # the message id in a queue


class Failed(msgspec.Struct, frozen=True):
    """`permanent`: no later attempt can succeed."""

    cause: Cause
    text: str
    dwell_ms: int
    status: int = 0
    permanent: bool = False
    retry_after_s: float = 0.0


Outcome = Delivered | Failed
