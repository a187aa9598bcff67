"""The port that an API process listens on."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import NoReturn

from cns_common.configuration.checks import read_bind_address
from cns_common.configuration.settings import Settings
from cns_common.errors import StartError

EXIT_PORT_TAKEN = 72
EXIT_ADDRESS_UNUSABLE = 75
EXIT_TLS_UNUSABLE = 76


def listen(settings: Settings, *, shared: bool) -> socket.socket:
    """Bind the port; other processes may bind it too if it is `shared`. Raises StartError.

    The TLS certificate is tried here: uvicorn would report a wrong one by a traceback at each restart.
    """
    listener = _bind(settings.host, settings.port, shared=shared)
    _check_tls(settings)
    return listener


def admin_listeners(settings: Settings, *, like: socket.socket) -> list[socket.socket]:
    """The socket of the address for administration, if there is one; shared by processes as the socket `like` is."""
    if not settings.admin_bind:
        return []
    shared = bool(like.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))
    return [_bind(*read_bind_address(settings.admin_bind), shared=shared)]


def _bind(host: str, port: int, *, shared: bool) -> socket.socket:
    try:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(info[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(info[4])
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"port {port} on {host} is taken", EXIT_PORT_TAKEN) from None
        reason = f"cannot listen on {host}:{port}: {error.strerror}"
        raise StartError(reason, EXIT_ADDRESS_UNUSABLE) from None
    listener.set_inheritable(False)
    return listener


def _check_tls(settings: Settings) -> None:
    if settings.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key, _refuse_passphrase)
    except OSError as error:  # ssl.SSLError is one
        reason = f"cannot use the TLS certificate {settings.tls_cert}: {error.strerror or error}"
        raise StartError(reason, EXIT_TLS_UNUSABLE) from None


def _refuse_passphrase() -> NoReturn:
    """OpenSSL calls this instead of asking the terminal at each start."""
    raise OSError("the private key has a passphrase: give one without")
