"""Tinyproxy, an egress proxy that asks for a user and a password."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.harness.parts import need
from lab.harness.ports import free_port
from lab.harness.processes import HOST, Process, is_open, plain_environment

CREDENTIALS = "cns:s3cret"


class Tinyproxy(Process):
    """It answers 500 where it cannot connect, and 401 to a wrong password. Its output names each request."""

    def __init__(self, directory: Path) -> None:
        port = free_port()
        configuration = directory / f"tinyproxy-{port}.conf"
        user, _, password = CREDENTIALS.partition(":")
        configuration.write_text(f"Port {port}\nListen {HOST}\nBasicAuth {user} {password}\nTimeout 600\n")
        command = [shutil.which("tinyproxy") or "tinyproxy", "-d", "-c", str(configuration)]
        super().__init__(command, directory / f"tinyproxy-{port}.log", plain_environment(), port=port)

    def proxy_url(self, credentials: str = CREDENTIALS) -> str:
        return f"http://{credentials}@{HOST}:{self.port}"

    def start(self) -> None:
        need("tinyproxy")
        super().start()
        self.wait_until(lambda: is_open(self.port))
