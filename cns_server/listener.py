"""The sockets that API processes listen on: bound here, or by systemd."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator, Mapping

from cns_common.configuration.checks import read_bind_address
from cns_common.configuration.settings import Settings
from cns_common.errors import StartError
from cns_common.process.supervisor import ListeningSockets
from cns_server.server_tls import server_context

EXIT_PORT_TAKEN = 72
EXIT_ADDRESS_UNUSABLE = 75
EXIT_TLS_UNUSABLE = 76
BACKLOG = 2_048
"""Callers that wait in the queue of a socket while no process accepts."""
SERVICE, ADMIN = "service", "admin"
"""The names of the sockets, also in systemd's FileDescriptorName."""
_FIRST_PASSED = 3
"""The first file descriptor that systemd passes: sd_listen_fds(3)."""


class Listeners(ListeningSockets):
    """The sockets of the service and, if there is one, of the address for administration.

    API processes that are forked from the one that opened them accept from the same queue: callers of a process that
    died wait there for its successor. `shared` lets processes that are not forks bind the addresses, too.
    """

    def __init__(self, settings: Settings, *, shared: bool = False, inherited: Mapping[str, int] | None = None) -> None:
        """`inherited` are file descriptors by name, as `hand_over` returned them before this program was executed.
        Raises StartError if systemd passes sockets that the settings do not name."""
        self._settings = settings
        self._shared = shared
        self._addresses = {SERVICE: (settings.host, settings.port)}
        if settings.admin_bind:
            self._addresses[ADMIN] = read_bind_address(settings.admin_bind)
        self._sockets = {name: _socket(number) for name, number in (inherited or _passed_by_systemd()).items()}
        for name, each in self._sockets.items():
            _check_port(name, each.getsockname()[1], self._addresses)

    def open(self) -> None:
        """Bind, and accept callers into the queue. Raises StartError.

        The TLS certificate is tried here: uvicorn would report a wrong one by a traceback at each restart.
        """
        self.check()
        for name, (host, port) in self._addresses.items():
            with _started_errors(host, port):
                if name not in self._sockets:
                    self._sockets[name] = _bind(host, port, self._shared)
                self._sockets[name].listen(BACKLOG)

    def check(self) -> None:
        """Raise StartError if the TLS certificate cannot be used."""
        _check_tls(self._settings)

    def refuse(self) -> None:
        """Refuse callers, those in the queue too, until `open`: no process accepts them. The addresses stay bound.

        systemd closes the sockets that it passed once it sees that they do not listen.
        """
        for each in self._sockets.values():
            with contextlib.suppress(OSError):  # it does not listen
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the sockets of this process; those of its children, and of systemd, stay open."""
        for each in self._sockets.values():
            each.close()
        self._sockets = {}

    def duplicates(self) -> list[socket.socket]:
        """The sockets for a server, which closes them; opened first if need be. Raises StartError."""
        self.open()
        return [each.dup() for each in self._sockets.values()]

    def hand_over(self) -> dict[str, int]:
        """Let the sockets outlive the execution of another program in this process. Returns their descriptors."""
        for each in self._sockets.values():
            each.set_inheritable(True)
        return {name: each.fileno() for name, each in self._sockets.items()}


def _passed_by_systemd() -> dict[str, int]:
    """The descriptors that systemd passed to this process, by the names of their units. Raises StartError."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):  # noqa: TID251  # systemd's, no setting
        return {}
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")  # noqa: TID251  # as above
    if len(set(names)) < len(names):
        text = f"systemd passes several sockets with one name ({', '.join(names)}): one each has ListenStream"
        raise StartError(text, EXIT_ADDRESS_UNUSABLE)
    return {name: number for number, name in enumerate(names, _FIRST_PASSED)}


def _check_port(name: str, port: int, addresses: Mapping[str, tuple[str, int]]) -> None:
    if name not in addresses:
        text = f"systemd passes a socket {name!r}: FileDescriptorName is {SERVICE}, or {ADMIN} with CNS_ADMIN_BIND"
    elif addresses[name][1] != port:
        text = f"systemd passes port {port} as {name}, but the settings name {addresses[name][1]}"
    else:
        return
    raise StartError(text, EXIT_ADDRESS_UNUSABLE)


def _socket(descriptor: int) -> socket.socket:
    """Programs that this process executes do not inherit it."""
    found = socket.socket(fileno=descriptor)
    found.set_inheritable(False)
    return found


def _bind(host: str, port: int, shared: bool) -> socket.socket:
    info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(info[0], socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(info[4])
    return listener


@contextlib.contextmanager
def _started_errors(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"port {port} on {host} is taken", EXIT_PORT_TAKEN) from None
        reason = f"cannot listen on {host}:{port}: {error.strerror}"
        raise StartError(reason, EXIT_ADDRESS_UNUSABLE) from None


def _check_tls(settings: Settings) -> None:
    if settings.tls_cert is None:
        return
    try:
        server_context(settings)
    except OSError as error:  # ssl.SSLError is one
        reason = f"cannot use the TLS certificate {settings.tls_cert}: {error.strerror or error}"
        raise StartError(reason, EXIT_TLS_UNUSABLE) from None
