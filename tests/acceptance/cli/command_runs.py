"""Runs `cns` commands as a user of a service does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.harness import commands
from lab.harness.processes import plain_environment
from lab.harness.service import REGION, Service


def run(service: Service, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the first account's key. `more` are variables; an empty one is unset."""
    environment = {
        **plain_environment(),
        **service.environment,
        "AWS_ENDPOINT_URL": service.url,
        "AWS_REGION": REGION,
        "XDG_CONFIG_HOME": "/nonexistent",
        **more,
    }
    return commands.run(*words, environment={name: value for name, value in environment.items() if value})
