"""The protocols http and https: URLs that are posted to."""

from __future__ import annotations

from cns.endpoints.http_url import target_of
from cns.errors import invalid_parameter
from cns.protocols.contract import EndpointProtocol, SubscribeCheck, Transport
from cns.protocols.url_syntax import split_url


class Http(EndpointProtocol):
    transport = Transport.HTTP
    subscribe_check = SubscribeCheck.URL
    web = True
    takes_raw = True
    feedback_prefix = "HTTP"
    span = ("POST", "client")

    def check(self, endpoint: str) -> str:
        if not endpoint.lower().startswith(f"{self.name}://"):
            raise invalid_parameter("Endpoint must match the specified protocol")
        parts = split_url(endpoint)
        if parts is None:
            raise self.syntax_fault(endpoint)
        if self.name == "http" and "@" in parts.netloc:
            raise invalid_parameter(
                "Endpoint Reason: Please use HTTPS for subscriptions that contain inline credentials"
            )
        return endpoint

    def endpoint_name(self, endpoint: str) -> str:
        """The host, and the port where it is not the scheme's."""
        target = target_of(endpoint)
        return "" if target is None else target.host_field
