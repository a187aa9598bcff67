"""TLS of the service's own sockets: certificates that are read again when their files change, and those of callers."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, NoReturn

import structlog

from cns_common.configuration.settings import Settings

log = structlog.get_logger(__name__)


class ServerTls:
    """`context` is used for every handshake, which takes the certificates that were read last."""

    def __init__(self, settings: Settings) -> None:
        """Raises OSError, of which ssl.SSLError is one."""
        self._settings = settings
        self._read = self._seen = self._states()
        self.context = _NewestContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.newest = server_context(settings)

    def reload(self) -> None:
        """Read the files again if they changed, and no more since the last call: a pair is written one by one. A file
        that is missing or half written, or a key of another certificate, keeps those that were read."""
        found = self._states()
        settled, self._seen = found == self._seen, found
        if found == self._read or not settled:
            return
        self._read = found
        try:
            self.context.newest = server_context(self._settings)
        except OSError as error:
            log.warning(
                "tls.reload_failed", certificate=str(self._settings.tls_cert), error=error.strerror or str(error)
            )
        else:
            log.info("tls.reloaded", certificate=str(self._settings.tls_cert))

    def _states(self) -> list[tuple[int, int, int] | None]:
        return [_state(path) for path in (self._settings.tls_cert, self._settings.tls_key, self._settings.client_ca)]


class _NewestContext(ssl.SSLContext):
    """Begins each handshake with the context that was read last. A context has its own sessions: with those of TLS 1.2,
    which OpenSSL keeps by their ids, a certificate would be accepted after its authority was taken away."""

    newest: ssl.SSLContext

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self.newest.wrap_bio(*args, **options)


def server_context(settings: Settings) -> ssl.SSLContext:
    """Raises OSError, of which ssl.SSLError is one."""
    assert settings.tls_cert is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings.tls_cert, settings.tls_key, _refuse_passphrase)
    if settings.client_ca is not None:
        context.load_verify_locations(settings.client_ca)
        required = settings.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        # a session that is resumed does not verify its certificate again (TLS 1.2 resumes by id nevertheless)
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def client_subject(transport: asyncio.BaseTransport) -> str:
    """The subject of the caller's certificate, which the handshake verified, as RFC 4514 writes it; '' without one."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    if not certificate:
        return ""
    from cryptography import x509  # takes long to import, and few services ask for certificates

    try:
        return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError:  # OpenSSL is less strict
        return ""


def _state(path: Path | None) -> tuple[int, int, int] | None:
    """Changes when the file does."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _refuse_passphrase() -> NoReturn:
    """OpenSSL calls this instead of asking the terminal at each start."""
    raise OSError("the private key has a passphrase: give one without")
