"""What came of one attempt, as a value: failures of endpoints are expected, and nothing to raise."""

from __future__ import annotations

from enum import StrEnum

import msgspec

RESPONSE_CHARS_MAX = 1_024
"""What is kept of what an endpoint says."""


class Cause(StrEnum):
    """Why an attempt failed."""

    STATUS = "status"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TLS = "tls"
    DNS = "dns"
    MAIL_REFUSED = "mail_refused"  # the mail or its recipient
    MAIL_RELAY = "mail_relay"  # refuses us
    MAIL_RATE = "mail_rate"  # more mails than a subscription may be sent
    REFUSED_ADDRESS = "refused_address"
    INVALID_URL = "invalid_url"
    QUEUE = "queue"
    OUTBOX = "outbox"
    STORE = "store"
    WORKER = "worker"
    GONE = "subscription_gone"
    OPTED_OUT = "opted_out"
    NOT_VERIFIED = "not_verified"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_GONE = "endpoint_gone"


class Delivered(msgspec.Struct, frozen=True):
    status: int
    dwell_ms: int
    provider_id: str = ""  # the message id in a queue
    response: str = ""  # what the endpoint said besides its status


class Failed(msgspec.Struct, frozen=True):
    """`permanent`: no later attempt can succeed. `code` is a queue's error code."""

    cause: Cause
    text: str
    dwell_ms: int
    status: int = 0
    permanent: bool = False
    retry_after_s: float = 0.0
    response: str = ""  # as above
    code: str = ""


Outcome = Delivered | Failed
