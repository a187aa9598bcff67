"""The protocol redis, an extension: channels to which the body that an HTTP endpoint would get is published."""

from __future__ import annotations

import ssl
from typing import Any

from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.contract import Request, Sender
from cns.endpoints.redis_request import PORT, RedisRequest, redis_channel
from cns.errors import invalid_parameter
from cns.protocols.contract import EndpointProtocol, SubscribeCheck
from cns.protocols.url_syntax import server_name, split_url
from cns_common.configuration.proxy_url import EgressProxy


class Redis(EndpointProtocol):
    """redis://[user:password@]host[:port]/channel, or rediss:// for TLS, with error texts of our own."""

    other_schemes = ("rediss",)
    request_type = RedisRequest
    confirms = False  # a channel may have no listener
    subscribe_check = SubscribeCheck.ADDRESS
    takes_raw = True

    def check(self, endpoint: str) -> str:
        if not endpoint.lower().startswith(("redis://", "rediss://")):
            raise invalid_parameter("Endpoint must match the specified protocol")
        parts = split_url(endpoint)
        if parts is None or parts.query or parts.fragment or not redis_channel(endpoint):
            raise invalid_parameter("Endpoint Reason: must be redis://host:port/channel")
        return endpoint

    def endpoint_name(self, endpoint: str) -> str:
        return server_name(endpoint, PORT)

    def request(self, endpoint: str, body: bytes) -> Request:
        return RedisRequest(endpoint, body)

    def sender(
        self, guard: AddressGuard, *, timeout_s: float, verify: ssl.SSLContext, proxy: EgressProxy | None
    ) -> Sender[Any]:
        from cns.endpoints.redis_channel import RedisSender  # only workers need the library

        return RedisSender(guard, timeout_s=timeout_s, verify=verify, proxy=proxy)
