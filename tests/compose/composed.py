"""docker-compose.yml brought up by podman-compose under a project of the test's own, and ways to break it."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cns_pytest.processes import exports
from lab.harness.ports import free_port
from lab.harness.processes import METRICS_TOKEN
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = "docker-compose.yml"
IMAGES_S = 900.0
STOP_S = 60
POOLS = 2
"""Delivery pools of each worker; `/metrics` shows them one by one."""
PODMAN_NETWORKS = "10.88.0.0/15"
CONTAINERS_CONF = {"CONTAINERS_CONF": str(ROOT / "deploy" / "images" / "containers.conf")}
"""Settings that podman needs on some machines. The caller's values win."""


@dataclass(frozen=True, kw_only=True)
class ComposedService(Service):
    """One composed cluster, in a directory with a `.env` file of its own."""

    directory: Path
    project: str

    def said(self) -> str:
        return "".join(podman("logs", name, check=False).stdout for name in self.containers())

    def cns(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.compose("exec", "-T", "api", "cns", *words, check=check)

    def delivery_logs(self, *words: str) -> str:
        raise NotImplementedError("the files are in the worker containers")

    def copies(self, text: str) -> int:
        raise NotImplementedError("the store is in another container")

    # -- the whole ----------------------------------------------------------------------------------------------------

    def compose(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["podman-compose", "-p", self.project, "-f", str(self.directory / COMPOSE), *words]
        return run(command, check=check)

    def up(self) -> None:
        """Bring it up step by step, as in docs/operations/install.md: this podman-compose ignores conditions."""
        self.compose("up", "-d", "cassandra", "redis")
        wait_until(lambda: self.is_healthy("cassandra") and self.is_healthy("redis"), self.said)
        self.compose("up", "-d", "schema")
        wait_until(lambda: self.state("schema")["Status"] == "exited", self.said)
        self.compose("up", "-d")
        wait_until(self.is_ready, self.said)

    def down(self, *words: str) -> None:
        """Stop it with the grace time of docker-compose.yml, which this podman-compose does not read."""
        self.compose("down", "-t", str(STOP_S), *words)

    def set(self, name: str, value: str) -> None:
        with (self.directory / ".env").open("a") as file:
            file.write(f"{name}={value}\n")

    # -- its containers -----------------------------------------------------------------------------------------------

    def containers(self) -> list[str]:
        label = f"label=io.podman.compose.project={self.project}"
        return podman("ps", "-a", "--filter", label, "--format", "{{.Names}}").stdout.split()

    def container(self, service: str, number: int = 1) -> str:
        return f"{self.project}_{service}_{number}"

    def state(self, service: str, number: int = 1) -> dict[str, Any]:
        (found,) = json.loads(podman("inspect", self.container(service, number)).stdout)
        state: dict[str, Any] = found["State"]
        return state

    def is_healthy(self, service: str, number: int = 1) -> bool:
        """Run the container's health check now: without systemd podman runs none."""
        return podman("healthcheck", "run", self.container(service, number), check=False).returncode == 0

    def gateway(self) -> str:
        """The address of this machine in the network of the containers."""
        (network,) = json.loads(podman("network", "inspect", f"{self.project}_default").stdout)
        return str(network["subnets"][0]["gateway"])

    def reporting_workers(self) -> int:
        return len({labels for name, labels in self.samples() if name == "cns_pool_sends_in_flight"}) // POOLS


def prepare(directory: Path) -> ComposedService:
    """Make the operator's first steps: copy the compose file and `.env`, build the images."""
    project = f"cnstest{secrets.token_hex(4)}"
    address = f"127.0.0.1:{free_port()}"
    shutil.copy(ROOT / COMPOSE, directory)
    shutil.copy(ROOT / "deploy" / "compose.env.example", directory / ".env")
    composed = ComposedService(url=f"http://{address}", directory=directory, project=project)
    composed.set("CNS_PUBLISH", address)
    composed.set("CNS_PUBLIC_URL", composed.url)
    composed.set("CNS_METRICS_TOKEN", METRICS_TOKEN)
    composed.set("CNS_ALLOWED_NETWORKS", PODMAN_NETWORKS)
    images = [sys.executable, "-m", "deploy.images"]
    run(images, timeout_s=IMAGES_S)
    built = run([*images, "cns"], timeout_s=IMAGES_S).stdout  # an image of the present code
    for name, value in (line.split("=", 1) for line in built.splitlines()):
        composed.set(name, value)
    return composed


def give_key(composed: ComposedService) -> None:
    composed.set("CNS_MASTER_KEY", base64.b64encode(secrets.token_bytes(32)).decode())


def first_account(composed: ComposedService) -> None:
    """Create an account and give its keys to `composed.client`."""
    composed.environment.update(exports(composed.cns("account", "create").stdout), AWS_DEFAULT_REGION=REGION)


def podman(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run(["podman", *words], check=check)


def run(command: list[str], *, check: bool = True, timeout_s: float = 180.0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**CONTAINERS_CONF, **os.environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done
