"""Attacks on the REST API by its OpenAPI document: no request fails the service or gets an answer that is not in it."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from cns.client import Client
from lab.harness.processes import BIN
from lab.harness.service import REGION, Service

EXAMPLES = 20
SEED = 1
UNCHECKED = "positive_data_acceptance"
"""The document does not have every limit of SQS and SNS, so a request that fits it may be refused with 400."""
CONFIG = """
[parameters]
"path.account" = "{account}"
"path.queue" = "{queue}"
"query.region" = "{region}"
"""


@pytest.mark.extended
def test_requests_made_from_the_document(service: Service, rest: Client, queue_name: str, tmp_path: Path) -> None:
    account = rest.show_queue(queue_name).account
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.format(account=account, queue=queue_name, region=REGION))
    keys = service.environment
    pair = f"{keys['AWS_ACCESS_KEY_ID']}:{keys['AWS_SECRET_ACCESS_KEY']}"
    authorization = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}"
    words: list[str | Path] = [
        "--config-file",
        config,
        "run",
        f"{service.url}/api/v1/openapi.json",
        "-H",
        authorization,
    ]
    bounds = ["-n", str(EXAMPLES), "--seed", str(SEED), "--phases", "examples,coverage,fuzzing"]
    excluded = ["--exclude-checks", UNCHECKED, "--exclude-operation-id", "rotateKeys"]  # it would end the test's key
    done = subprocess.run(
        [BIN / "st", *words, *bounds, *excluded],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
