"""The sockets that API processes listen on: bound here, or by systemd."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import NoReturn

from cns_common.configuration.checks import read_bind_address
from cns_common.configuration.settings import Settings
from cns_common.errors import StartError

EXIT_PORT_TAKEN = 72
EXIT_ADDRESS_UNUSABLE = 75
EXIT_TLS_UNUSABLE = 76
BACKLOG = 2_048
"""Callers that wait in the queue of a socket while no process accepts."""
SERVICE, ADMIN = "service", "admin"
"""The names of the sockets, also in systemd's FileDescriptorName."""
_FIRST_PASSED = 3
"""The first file descriptor that systemd passes: sd_listen_fds(3)."""


class Listeners:
    """The sockets of the service and, if there is one, of the address for administration.

    API processes that are forked from the one that opened them accept from the same queue: callers of a process that
    died wait there for its successor. `shared` lets processes that are not forks bind the addresses, too.
    """

    def __init__(
        self, settings: Settings, *, shared: bool = False, inherited: Mapping[str, list[int]] | None = None
    ) -> None:
        """`inherited` are file descriptors by name, as `hand_over` returned them before this program was executed."""
        self._settings = settings
        self._shared = shared
        self._passed = _sockets_of_systemd()
        self._sockets = {name: _sockets(each) for name, each in (inherited or {}).items()}

    def open(self) -> None:
        """Bind and listen; sockets that are open stay. Raises StartError.

        The TLS certificate is tried here: uvicorn would report a wrong one by a traceback at each restart.
        """
        if self._sockets:
            return
        _check_tls(self._settings)
        addresses = {SERVICE: (self._settings.host, self._settings.port)}
        if self._settings.admin_bind:
            addresses[ADMIN] = read_bind_address(self._settings.admin_bind)
        try:
            for name, address in addresses.items():
                passed = self._passed.get(name)
                self._sockets[name] = [each.dup() for each in passed] if passed else [_bind(*address, self._shared)]
        except StartError:
            self.close()
            raise
        for each in self._all():
            each.listen(BACKLOG)

    def close(self) -> None:
        """Close the sockets of this process; those of its children, and of systemd, stay open."""
        for each in self._all():
            each.close()
        self._sockets = {}

    def duplicates(self) -> list[socket.socket]:
        """The sockets for a server, which closes them; opened first if need be. Raises StartError."""
        self.open()
        return [each.dup() for each in self._all()]

    def hand_over(self) -> dict[str, list[int]]:
        """Let the open sockets outlive the execution of another program in this process. Returns them for it."""
        for each in self._all():
            each.set_inheritable(True)
        return {name: [each.fileno() for each in sockets] for name, sockets in self._sockets.items()}

    def _all(self) -> list[socket.socket]:
        return [each for sockets in self._sockets.values() for each in sockets]


def _sockets_of_systemd() -> dict[str, list[socket.socket]]:
    """The sockets that systemd passed to this process, by name; without names of ours, all are the service's."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):  # noqa: TID251  # systemd's, no setting
        return {}
    descriptors = range(_FIRST_PASSED, _FIRST_PASSED + int(os.environ["LISTEN_FDS"]))  # noqa: TID251  # as above
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")  # noqa: TID251  # as above
    admin = [fd for fd, name in zip(descriptors, names, strict=False) if name == ADMIN]
    service = [fd for fd in descriptors if fd not in admin]
    return {name: _sockets(each) for name, each in ((SERVICE, service), (ADMIN, admin)) if each}


def _sockets(descriptors: Iterable[int]) -> list[socket.socket]:
    """They are not inherited by programs that this process executes."""
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for each in sockets:
        each.set_inheritable(False)
    return sockets


def _bind(host: str, port: int, shared: bool) -> socket.socket:
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
