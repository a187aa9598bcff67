"""The contract of endpoint protocols: all that tells one from the others, with what most of them have in common."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from cns.delivery.retry_policy import RetryPolicy
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.contract import Request, Sender
from cns.endpoints.outcome import Delivered
from cns.errors import invalid_parameter
from cns.notification import Notification
from cns_common.configuration.proxy_url import EgressProxy
from cns_common.errors import RequestError
from cns_common.traces.contract import Kind

if TYPE_CHECKING:  # cryptography.x509 takes long to import
    from cns.delivery.signing import Signer


class Transport(Enum):
    """The delivery channel. BODY: the protocol's own request and sender carry the body that HTTP endpoints get."""

    BODY = auto()
    HTTP = auto()
    QUEUE = auto()
    OUTBOX = auto()
    MAIL = auto()


class SubscribeCheck(Enum):
    """The check of an endpoint at Subscribe that needs more than its text."""

    ADDRESS = auto()
    URL = auto()
    MOBILE_ENDPOINT = auto()


class DeliveryCheck(Enum):
    """The check of an endpoint before each delivery."""

    PHONE = auto()
    MOBILE_ENDPOINT = auto()
    MAILBOX = auto()


class Recipient(Protocol):
    """The parts of a delivery target that a payload is made of."""

    @property
    def arn(self) -> str: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def raw(self) -> bool: ...
    @property
    def display_name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadContext:
    """The parts of payloads besides the notification: `base_url` begins links, `footer` ends mails."""

    signer: Signer
    base_url: str
    footer: str


class EndpointProtocol:
    """A protocol of Subscribe. A new one overrides what differs, and gets its line in `cns.protocols.table`."""

    aliases: tuple[str, ...] = ()
    """Other names that Subscribe takes."""
    other_schemes: tuple[str, ...] = ()
    """Schemes of its URLs besides its name."""
    syntax_error = "Endpoint"
    """The text for an invalid endpoint, which `{}` stands for."""
    transport = Transport.BODY
    request_type: type[Request] | None = None
    """The requests of its own sender, where the transport is BODY."""
    retry: RetryPolicy | None = None
    """AWS's fixed policy. None: the delivery policy in effect, with its throttle."""

    names_account = False
    """Its endpoints are ARNs, which name their owner's account."""
    confirms = True
    """Endpoints of other accounts confirm their subscription. Those that cannot answer do not."""
    asked_each_time = False
    """Endpoints of other accounts are sent a confirmation although they are confirmed, as recorded from SNS."""
    subscribe_check: SubscribeCheck | None = None
    delivery_check: DeliveryCheck | None = None

    web = False
    """HTTP: with headers, a delivery policy of the subscription and webhook secrets."""
    mail = False
    html_mail = False
    """Notifications are sent as HTML, too."""
    takes_raw = False
    fifo_error = ""
    """The text for a FIFO endpoint at a standard topic. Empty: FIFO topics do not deliver to this protocol."""
    takes_large = False
    """Its endpoints accept messages above 256 KiB."""
    needs_role = False
    in_console = True
    """The console offers it."""

    feedback_prefix = ""
    """The prefix of the topic's attributes for status logging. Empty: a topic cannot ask for any."""
    own_feedback = False
    """The endpoint's application, or else the account, has attributes for status logging, too."""
    delivered_status: int | None = None
    """The status of a delivery in its log. None: the endpoint's."""
    span: tuple[str, Kind] | None = None
    """Name and kind of the span of a send. None: the protocol's name, a client's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, endpoint: str) -> str:
        """Check the syntax of an endpoint. Return it in the form to store."""
        raise NotImplementedError

    def syntax_fault(self, endpoint: str) -> RequestError:
        return invalid_parameter(self.syntax_error.format(endpoint))

    def endpoint_name(self, endpoint: str) -> str:
        """The endpoint in events and reports: the part that succeeds or fails together, without credentials and
        personal data; '' where nothing may be shown, or for what cannot be parsed."""
        return ""

    def text_key(self, endpoint: str) -> str:
        """The key of an endpoint's text in a message of MessageStructure=json.

        All endpoints of a protocol share a body: with the transports BODY, HTTP and QUEUE the key is the name.
        """
        return self.name

    def payload(self, context: PayloadContext, recipient: Recipient, notification: Notification, text: str) -> str:
        """The body for the outbox, the gateway or a mail."""
        return text

    def request(self, endpoint: str, body: bytes) -> Request:
        raise NotImplementedError

    def sender(
        self, guard: AddressGuard, *, timeout_s: float, verify: ssl.SSLContext, proxy: EgressProxy | None
    ) -> Sender[Any]:
        """Make the sender of its requests for one event loop."""
        raise NotImplementedError

    def logged_response(self, outcome: Delivered, delivery_id: str) -> str:
        """The endpoint's answer in the delivery log."""
        return outcome.response
