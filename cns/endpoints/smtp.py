"""Mailboxes: sends one mail through the operator's relay, and classifies the relay's reply.

Replies about the relay (a refused login, an unknown sender, no TLS) are for the operator to fix, and the mail is
retried. Only replies about the recipient or the mail are final.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from contextlib import suppress
from typing import cast

from aiosmtplib import SMTP
from aiosmtplib.errors import (
    SMTPDataError,
    SMTPException,
    SMTPRecipientRefused,
    SMTPResponseException,
    SMTPServerDisconnected,
)

from cns.endpoints.contract import Request
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Cause, Delivered, Failed, Outcome
from cns_common.configuration.smtp_url import SmtpRelay

IDLE_TIMEOUT_S = 10.0
"""Idle connections older than this are not used: relays close them, some soon."""
QUIT_TIMEOUT_S = 1.0
_ACCEPTED = 250
_CLOSING = 421
_RELAY_CODES = frozenset({502, 503, 530, 534, 535, 538})
"""Login, TLS, and commands that the relay does not know."""
_RELAY_TEXT = re.compile(r"\brelay|authenti|\b5\.(?:3\.[01235]|4\.5|5\.\d+|7\.(?:8|9|11|13|14))\b", re.IGNORECASE)
"""Relaying denied or login missing; and by RFC 3463 the relay's disk, quota, commands and login."""


class SmtpRequest(Request, frozen=True):
    sender: str
    recipient: str
    message: bytes


class TlsUnavailable(SMTPException):
    """TLS is required by the settings, or to protect the password, and the relay offers none."""


class RelayClosed(SMTPServerDisconnected):
    """The relay closed the connection before it took anything: another connection may be tried at once."""


class SmtpSender:
    """Sends mails from one event loop over a few kept connections."""

    def __init__(
        self, relay: SmtpRelay, *, connections: int, timeout_s: float, verify: ssl.SSLContext, hello: str
    ) -> None:
        """`hello` is the host name of this service."""
        self._relay = relay
        self._timeout_s = timeout_s
        self._verify = verify
        self._hello = hello
        self._slots = asyncio.Semaphore(connections)
        self.idle: list[tuple[_SmtpConnection, float]] = []

    async def send(self, request: SmtpRequest) -> Outcome:
        """Make one attempt, which ends within the timeout, time spent waiting for a free connection included."""
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s), self._slots:
                reply = await self._transfer(request)
        except TimeoutError:
            return Failed(Cause.TIMEOUT, "the mail relay did not answer in time", _since_ms(started_s))
        except SMTPResponseException as error:
            return _failure_of_reply(error, _since_ms(started_s))
        except (SMTPException, OSError, ValueError) as error:
            return _failure_of(error, _since_ms(started_s))
        shown = reply[:RESPONSE_CHARS_MAX]
        return Delivered(_ACCEPTED, _since_ms(started_s), response=shown, size_bytes=len(request.message))

    async def close(self) -> None:
        idle, self.idle = self.idle, []
        for connection, _ in idle:
            with suppress(SMTPException, OSError):
                await connection.client.quit(timeout=QUIT_TIMEOUT_S)
            connection.abort()

    async def _transfer(self, request: SmtpRequest) -> str:
        """Return the relay's reply."""
        idle = self._take()
        if idle is not None:
            try:
                return await self._mail(idle, request)
            except RelayClosed:  # relays close connections after a while
                pass
        return await self._mail(await self._open(), request)

    async def _mail(self, connection: _SmtpConnection, request: SmtpRequest) -> str:
        client = connection.client
        try:
            await _mail_from(client, request)
            await client.rcpt(request.recipient)
            answer = await client.data(request.message)
        except SMTPResponseException:
            await self._keep_reset(connection)
            raise
        except BaseException:  # a late reply must not be taken for the next one's
            connection.abort()
            raise
        self._keep(connection)
        return answer.message

    def _take(self) -> _SmtpConnection | None:
        while self.idle:
            connection, since_s = self.idle.pop()
            if connection.client.is_connected and time.monotonic() - since_s < IDLE_TIMEOUT_S:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: _SmtpConnection) -> None:
        self.idle.append((connection, time.monotonic()))

    async def _keep_reset(self, connection: _SmtpConnection) -> None:
        """Reset after a refusal and keep. When the reset fails the connection is closed; the refusal stands."""
        try:
            await connection.client.rset(timeout=QUIT_TIMEOUT_S)
        except (SMTPException, OSError):
            connection.abort()
        except BaseException:
            connection.abort()
            raise
        else:
            self._keep(connection)

    async def _open(self) -> _SmtpConnection:
        relay = self._relay
        client = SMTP(
            hostname=relay.host,
            port=relay.port,
            local_hostname=self._hello,
            timeout=self._timeout_s,
            use_tls=relay.tls,
            start_tls=False,
            tls_context=self._verify,
        )
        await client.connect()
        connection = _SmtpConnection(client)
        try:
            if not relay.tls:
                await _start_tls(client, relay)
            if relay.user:
                await client.login(relay.user, relay.password)
        except BaseException:
            connection.abort()
            raise
        return connection


class _SmtpConnection:
    """A client, and its transport, which the client drops when it closes."""

    __slots__ = ("_transport", "client")

    def __init__(self, client: SMTP) -> None:
        self.client = client
        self._transport = client.transport

    def abort(self) -> None:
        """Close the socket at once, without the closing handshake of TLS."""
        self.client.close()
        if self._transport is not None:
            cast(asyncio.WriteTransport, self._transport).abort()


async def _start_tls(client: SMTP, relay: SmtpRelay) -> None:
    if relay.start_tls == "off":
        return
    await client.ehlo()
    if client.supports_extension("starttls"):
        await client.starttls()
    elif relay.start_tls == "require" or relay.user:
        raise TlsUnavailable("the relay offers no STARTTLS")


async def _mail_from(client: SMTP, request: SmtpRequest) -> None:
    """Send MAIL FROM."""
    options = [f"size={len(request.message)}"] if client.supports_extension("size") else []
    try:
        await client.mail(request.sender, options=options)
    except SMTPServerDisconnected as error:
        raise RelayClosed(error.message) from error
    except SMTPResponseException as error:
        if error.code != _CLOSING:
            raise
        raise RelayClosed(f"{error.code} {error.message}") from error


def _failure_of_reply(error: SMTPResponseException, dwell_ms: int) -> Failed:
    about_relay = (
        not isinstance(error, SMTPRecipientRefused | SMTPDataError)
        or error.code in _RELAY_CODES
        or _RELAY_TEXT.search(error.message) is not None
    )
    return Failed(
        Cause.MAIL_RELAY if about_relay else Cause.MAIL_REFUSED,
        f"{error.code} {error.message[:RESPONSE_CHARS_MAX]}",
        dwell_ms,
        status=error.code,
        permanent=error.code >= 500 and not about_relay,
        response=error.message[:RESPONSE_CHARS_MAX],
    )


def _failure_of(error: Exception, dwell_ms: int) -> Failed:
    chain: BaseException | None = error
    while chain is not None and not isinstance(chain, ssl.SSLError):
        chain = chain.__cause__ or chain.__context__
    cause = Cause.TLS if chain is not None or isinstance(error, TlsUnavailable) else Cause.CONNECTION
    return Failed(cause, str(error) or type(error).__name__, dwell_ms)


def _since_ms(started_s: float) -> int:
    return int((time.monotonic() - started_s) * 1000)
