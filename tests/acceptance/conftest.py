"""The service as a newcomer starts it, driven by clients we did not write."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.waiting import wait_until

BIN = Path(os.sys.executable).parent  # type: ignore[attr-defined]
REGION = "eu-central-1"


@dataclass(frozen=True)
class Service:
    """A running `cns up`."""

    url: str
    data: Path
    environment: dict[str, str]
    process: subprocess.Popen[str]

    def client(self, name: str, **options: Any) -> Any:
        return boto3.client(
            name,
            endpoint_url=self.url,
            region_name=options.pop("region_name", REGION),
            aws_access_key_id=options.pop("key", self.environment.get("AWS_ACCESS_KEY_ID", "123456789012")),
            aws_secret_access_key=options.pop("secret", self.environment.get("AWS_SECRET_ACCESS_KEY", "none")),
            config=Config(retries={"max_attempts": 1}, **options),
        )

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def advance(self, seconds: float) -> None:
        request = urllib.request.Request(
            self.url + "/_cns/clock",
            json.dumps({"advance_s": seconds}).encode(),
            {"content-type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200

    def aws(self, *words: str) -> Any:
        """The AWS CLI's answer."""
        done = subprocess.run(
            [str(BIN / "aws"), *words],
            env={**os.environ, **self.environment, "AWS_PAGER": "", "AWS_DEFAULT_REGION": REGION},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def running(data: Path, *options: str, port: int | None = None) -> Iterator[Service]:
    port = port or free_port()
    said = data.parent / f"{data.name}.said"
    with said.open("w") as out:
        process = subprocess.Popen(
            [str(BIN / "cns"), "up", "--port", str(port), "--data", str(data), *options],
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
    url = f"http://127.0.0.1:{port}"
    service = Service(url, data, {}, process)
    try:
        wait_until(lambda: process.poll() is not None or _ready(url), 30, lambda: said.read_text())
        assert process.poll() is None, said.read_text()
        for line in said.read_text().splitlines():
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                service.environment[name] = value
        yield service
    finally:
        process.terminate()
        process.wait(40)


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service with signatures on and a test clock, for all tests that do not break it."""
    with running(tmp_path_factory.mktemp("service") / "data", "--test-clock") as started:
        yield started


@pytest.fixture(scope="session")
def sqs(service: Service) -> Any:
    return service.client("sqs")


@pytest.fixture(scope="session")
def sns(service: Service) -> Any:
    return service.client("sns")


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The fault receiver's base URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([str(BIN / "cns"), "receiver", "--port", str(port)])
    try:
        wait_until(lambda: _healthy(url), 20, lambda: "the receiver does not answer")
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
