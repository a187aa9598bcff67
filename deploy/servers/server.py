"""A server as a value (command, ports, the answer that shows it is ready) and its lifecycle: start, wait, stop."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.servers.daemon import Daemon, wait_until
from deploy.servers.failure import Failure, tail

ANSWER_S = 2.0
STOP_S = 60.0
"""Enough for Cassandra to flush and, at its first stop, to write the class archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """`listens` are the addresses to bind; the first one answers `question` with `answer` when it is ready."""

    name: str
    directory: Path
    listens: tuple[tuple[str, int], ...]
    port_variable: str
    question: bytes
    answer: bytes
    start_limit_s: float
    command: Callable[[], list[str]]
    on_stopped: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        host, port = self.listens[0]
        return f"{host}:{port}"

    @property
    def daemon(self) -> Daemon:
        return Daemon(record=self.directory / "pid", output=self.directory / "output.log")

    @property
    def log(self) -> Path:
        return self.directory / "system.log"

    def is_running(self) -> bool:
        return self.daemon.pid() is not None

    def is_ready(self) -> bool:
        return self.is_running() and self._address_file.read_text() == self.address and self._answers()

    def check_ports(self) -> None:
        for host, port in self.listens:
            if not _is_free(host, port):
                text = f"{self.name}: port {port} of {host} is taken by another process: set {self.port_variable}"
                raise Failure(text)

    def launch(self) -> None:
        """Start the process without waiting for it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = self.command()
        print_message(f"{self.name}: starting")
        self._address_file.write_text(self.address)
        self.daemon.start(command, self.directory)

    def check_address(self) -> None:
        """Raise a Failure if the server runs on another address, because the settings have changed."""
        address = self._address_file.read_text()
        if address != self.address:
            raise Failure(f"{self.name}: runs on {address}, not on {self.address}: stop it with `down` first")

    def wait_ready(self) -> None:
        settled = wait_until(lambda: self._answers() or not self.is_running(), self.start_limit_s)
        if not settled:
            raise Failure(f"{self.name}: no answer in {self.start_limit_s:.0f} s{self._logs()}")
        if not self.is_running():
            raise Failure(f"{self.name}: ended while starting{self._logs()}")

    def stop(self) -> None:
        if self.is_running():
            print_message(f"{self.name}: stopping")
            if self.daemon.stop(STOP_S):
                self.on_stopped()

    @property
    def _address_file(self) -> Path:
        return self.directory / "address"

    def _logs(self) -> str:
        return tail(self.daemon.output, self.log)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(self.listens[0], ANSWER_S) as connection:
                connection.settimeout(ANSWER_S)
                connection.sendall(self.question)
                return connection.recv(len(self.answer)) == self.answer
        except OSError:
            return False


def start(servers: Sequence[Server]) -> list[Server]:
    """Start the servers that do not run; return them when all servers answer. A Failure kills the started ones."""
    idle = [server for server in servers if not server.is_running()]
    for server in servers:
        if server in idle:
            server.check_ports()
        else:
            server.check_address()
            server.daemon.signal(signal.SIGCONT)  # it may still be paused
    try:
        for server in idle:
            server.launch()
        for server in servers:
            server.wait_ready()
    except Failure:
        for server in idle:
            server.daemon.kill()
        raise
    return idle


def print_message(text: str) -> None:
    """Print to standard error: standard output is for lines that a shell evaluates."""
    print(text, file=sys.stderr, flush=True)


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
