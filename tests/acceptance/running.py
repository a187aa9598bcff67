"""Starts `cns` as a person would, and speaks to it with clients we did not write."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.waiting import wait_until

BIN = Path(sys.executable).parent
REGION = "eu-central-1"
CLUSTER = os.environ.get("CNS_STORE") == "cassandra"
START_S = 30.0
STOP_S = 45.0
ANNOUNCEMENT = "cns: SNS and SQS on "
_METRIC = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")


@dataclass(frozen=True)
class Service:
    """A running `cns up`. `environment` is what it told its user to export."""

    url: str
    data: Path
    said_path: Path
    process: subprocess.Popen[bytes]
    ca_file: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)

    # -- clients ------------------------------------------------------------------------------------------------------

    def client(self, name: str, **options: Any) -> Any:
        """boto3's; `key` and `secret` are those of the first account unless given."""
        return boto3.client(
            name,
            endpoint_url=options.pop("url", self.url),
            region_name=options.pop("region_name", REGION),
            aws_access_key_id=options.pop("key", self.environment.get("AWS_ACCESS_KEY_ID", "123456789012")),
            aws_secret_access_key=options.pop("secret", self.environment.get("AWS_SECRET_ACCESS_KEY", "none")),
            verify=None if self.ca_file is None else str(self.ca_file),
            config=Config(retries={"total_max_attempts": options.pop("tries", 1)}, **options),
        )

    def aws(self, *words: str) -> Any:
        """The AWS CLI's answer. Without the option its version 1 would send SQS calls to AWS itself."""
        done = subprocess.run(
            [BIN / "aws", "--endpoint-url", self.url, *words],
            env={**os.environ, **self.environment, "AWS_PAGER": "", "AWS_DEFAULT_REGION": REGION},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    # -- pages --------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> tuple[int, bytes]:
        return fetch(self.url + path, ca_file=self.ca_file)

    def health(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.get("/health")[1])
        return report

    def is_ready(self) -> bool:
        try:
            return self.get("/ready")[0] == 200
        except OSError:
            return False

    def pids(self) -> dict[str, int]:
        """The processes that `cns up` watches, by name."""
        return {process["name"]: process["pid"] for process in self.health()["processes"]}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of one metric's samples that have these labels."""
        total = 0.0
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        for line in self.get("/metrics")[1].decode().splitlines():
            found = _METRIC.fullmatch(line)
            if found and found[1] == name and wanted <= set((found[2] or "").split(",")):
                total += float(found[3])
        return total

    def advance(self, seconds: float) -> None:
        """Move the test clock; it has moved in every process when this returns."""
        body = json.dumps({"advance_s": seconds}).encode()
        status, answer = fetch(self.url + "/_cns/clock", body, {"content-type": "application/json"})
        assert status == 200, answer

    def inside(self, path: Path) -> Path:
        """A file as the service sees it, which may have a disk of its own."""
        return Path(f"/proc/{self.process.pid}/root{path}")

    def said(self) -> str:
        return self.said_path.read_text()

    def events(self, event: str, **members: object) -> list[dict[str, Any]]:
        """What it logged under this name, with these members."""
        logged = [json.loads(line) for line in self.said().splitlines() if line.startswith('{"')]
        return [entry for entry in logged if members.items() | {("event", event)} <= _hashable(entry).items()]

    # -- life ---------------------------------------------------------------------------------------------------------

    def wait_ready(self) -> None:
        wait_until(
            lambda: self.process.poll() is not None or (ANNOUNCEMENT in self.said() and self.is_ready()),
            START_S,
            self.said,
        )
        assert self.process.poll() is None, self.said()
        self.environment.update(exports_in(self.said()) or self._first_account())

    def _first_account(self) -> dict[str, str]:
        """Only the embedded form makes an account by itself."""
        return exports_in(cns("account", "create", "--data", self.data).stdout) if CLUSTER else {}

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        return self.process.wait(STOP_S)


def start(
    data: Path,
    *options: str,
    port: int | None = None,
    url: str = "",
    ca_file: Path | None = None,
    first: Callable[[], None] | None = None,
    disk_mib: int = 0,
) -> Service:
    """`cns up`, not waited for. `first` is called in the new process before it begins; with `disk_mib` its data are on
    a disk of that size, which only it sees."""
    port = port or free_port()
    said_path = data.parent / f"{data.name}-{port}.said"
    with said_path.open("wb") as out:
        process = subprocess.Popen(
            [
                *(_own_disk(data, disk_mib) if disk_mib else ()),
                BIN / "cns",
                "up",
                "--port",
                str(port),
                "--data",
                data,
                *options,
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=_plain_environment(),
            preexec_fn=first,
        )
    return Service(url or f"http://127.0.0.1:{port}", data, said_path, process, ca_file)


@contextmanager
def running(data: Path, *options: str, **more: Any) -> Iterator[Service]:
    """`cns up`, ready; stopped at the end if it still runs. See `start`."""
    service = start(data, *options, **more)
    try:
        service.wait_ready()
        yield service
    finally:
        service.stop()


def _own_disk(directory: Path, size_mib: int) -> list[str]:
    """The beginning of a command that runs with a new file system there, in a name space of its own."""
    directory.mkdir()
    mount = f'mount -t tmpfs -o size={size_mib}m none "$0" && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)]


def cns(*words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Another `cns` command, run to its end."""
    done = subprocess.run([BIN / "cns", *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 or not check, done.stderr
    return done


def exports_in(text: str) -> dict[str, str]:
    """The variables that `export` lines set."""
    lines = [line.removeprefix("export ") for line in text.splitlines() if line.startswith("export ")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def keys_in(text: str) -> dict[str, str]:
    """The options of `Service.client` for the account whose exports these are."""
    exports = exports_in(text)
    return {"key": exports["AWS_ACCESS_KEY_ID"], "secret": exports["AWS_SECRET_ACCESS_KEY"]}


def _plain_environment() -> dict[str, str]:
    """As a person's shell has it, who lets Python keep what it has compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def fetch(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str | None = None,
    ca_file: Path | None = None,
    timeout_s: float = 10.0,
) -> tuple[int, bytes]:
    """Status and body, of errors too."""
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)
    context = ssl.create_default_context(cafile=ca_file) if ca_file else None
    try:
        with urllib.request.urlopen(request, timeout=timeout_s, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _hashable(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if not isinstance(value, dict | list)}
