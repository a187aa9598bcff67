"""The protocol nats, an extension: subjects of NATS servers, to which the body that an HTTP endpoint would get goes."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

from cns.endpoints.address_guard import AddressGuard, AddressRefused
from cns.endpoints.contract import Request, Sender
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.errors import invalid_parameter
from cns.protocols.contract import EndpointProtocol, Lookup
from cns.protocols.url_syntax import server_name, split_url

PORT = 4222
_SUBJECT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_OPTIONS = json.dumps({"verbose": False, "pedantic": False, "name": "cns", "lang": "python"}).encode()


class NatsRequest(Request, frozen=True):
    url: str
    body: bytes


class NatsRefused(Exception):
    """The server answered with an error."""


class Nats(EndpointProtocol):
    """nats://host[:port]/subject, with error texts of our own."""

    request_type = NatsRequest
    confirms = False  # a subject may have no listener
    subscribe_check = Lookup.ADDRESS
    takes_raw = True

    def check(self, endpoint: str) -> str:
        parts = split_url(endpoint) if endpoint.startswith("nats://") else None
        subject = "" if parts is None else parts.path[1:]
        if parts is None or "@" in parts.netloc or parts.query or parts.fragment or not _SUBJECT.fullmatch(subject):
            raise invalid_parameter("Endpoint Reason: must be nats://host:port/subject")
        return endpoint

    def endpoint_name(self, endpoint: str) -> str:
        return server_name(endpoint, PORT)

    def request(self, endpoint: str, body: bytes) -> Request:
        return NatsRequest(endpoint, body)

    def sender(self, guard: AddressGuard, *, timeout_s: float, verify: ssl.SSLContext) -> Sender[Any]:
        return NatsSender(guard, timeout_s)


class NatsSender:
    """Publishes each message on a connection of its own, and waits until the server answers the ping behind it."""

    def __init__(self, guard: AddressGuard, timeout_s: float) -> None:
        self._guard = guard
        self._timeout_s = timeout_s

    async def send(self, request: NatsRequest) -> Outcome:
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._publish(request)
        except TimeoutError:
            return Failed(Cause.TIMEOUT, "NATS did not answer in time", _since_ms(started_s))
        except AddressRefused as error:
            return Failed(Cause.REFUSED_ADDRESS, str(error), _since_ms(started_s), permanent=True)
        except socket.gaierror as error:
            return Failed(Cause.DNS, str(error), _since_ms(started_s))
        except NatsRefused as error:
            return Failed(Cause.STATUS, str(error), _since_ms(started_s))
        except (OSError, ValueError) as error:  # ValueError: a line without end, a name that cannot be looked up
            return Failed(Cause.CONNECTION, str(error) or type(error).__name__, _since_ms(started_s))
        return Delivered(0, _since_ms(started_s), size_bytes=len(request.body))

    async def close(self) -> None: ...

    async def _publish(self, request: NatsRequest) -> None:
        from cns.endpoints.connect import NameResolver, connect_to_allowed  # only workers need the library

        parts = urlsplit(request.url)
        addresses = await NameResolver().find(parts.hostname or "", parts.port or PORT)
        connected = await connect_to_allowed(self._guard, addresses)
        reader, writer = await asyncio.open_connection(sock=connected)
        try:
            head = f"PUB {parts.path[1:]} {len(request.body)}\r\n".encode()
            writer.write(b"CONNECT %b\r\n%b%b\r\nPING\r\n" % (_OPTIONS, head, request.body))
            while line := await reader.readline():
                if line.startswith(b"PONG"):
                    return
                if line.startswith(b"-ERR"):
                    raise NatsRefused(line.decode(errors="replace").strip())
            raise ConnectionError("NATS closed the connection")
        finally:
            writer.close()


def _since_ms(started_s: float) -> int:
    return int((time.monotonic() - started_s) * 1000)
