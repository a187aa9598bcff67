"""Terraform applies, plans, changes, imports and destroys `main.tf` of this folder, which has the example in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.language_tools import find_terraform
from lab.harness.parts import need
from lab.harness.running import running
from lab.harness.waiting import PATIENCE_S
from tests.acceptance.topics import receive_all

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "terraform" / "main.tf"
RESOURCES = 20
"""14 of `main.tf` and 6 of the example."""
CHANGED = 14
IS_CHANGED = "-var=is_changed=true"

pytestmark = pytest.mark.extended


@dataclass(frozen=True)
class Terraform:
    program: str
    directory: Path
    environment: Mapping[str, str]

    def __call__(self, command: str, *words: str) -> str:
        """Run a command, which must succeed. Returns what it printed."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("AWS_", "TF_"))}
        without_network = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"}
        done = subprocess.run(
            [self.program, command, *words],
            cwd=self.directory,
            env={**kept, **without_network, "TF_INPUT": "0", "TF_CLI_ARGS": "-no-color", **self.environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def output(self, name: str) -> Any:
        return json.loads(self("output", "-json", name))

    def apply(self, *words: str) -> str:
        return self("apply", "-auto-approve", *words)

    def expect_empty_plan(self, *words: str) -> None:
        self("plan", "-detailed-exitcode", *words)  # exit code 2: there is something to change


def test_apply_plan_change_import_and_destroy(tmp_path: Path, endpoint: Endpoint) -> None:
    need("terraform")
    tools = find_terraform()
    assert tools, "docs/guides/terraform.md says how to get Terraform and its AWS provider"
    program, providers = tools
    (tmp_path / "example").mkdir()
    shutil.copy(HERE / "main.tf", tmp_path)
    shutil.copy(EXAMPLE, tmp_path / "example")
    with running(tmp_path / "data") as service:
        sqs, sns = (service.client(name, region_name="us-east-1") for name in ("sqs", "sns"))
        variables = {"TF_VAR_endpoint": service.url, "TF_VAR_web_endpoint": endpoint.url}
        terraform = Terraform(program, tmp_path, {**service.environment, **variables})
        terraform("init", f"-plugin-dir={providers}")
        assert f"{RESOURCES} added, 0 changed, 0 destroyed" in terraform.apply()
        terraform.expect_empty_plan()
        for total in ("99", "150"):
            attributes = {"total": {"DataType": "Number", "StringValue": total}}
            sns.publish(TopicArn=terraform.output("topic"), Message=total, MessageAttributes=attributes)
        assert [message["Body"] for message in receive_all(sqs, terraform.output("queue"), 1)] == ["150"]

        assert f"0 added, {CHANGED} changed, 0 destroyed" in terraform.apply(IS_CHANGED)
        terraform.expect_empty_plan(IS_CHANGED)

        resources = json.loads(terraform("show", "-json"))["values"]["root_module"]["resources"]
        ids = {each["address"]: each["values"]["id"] for each in resources if each["mode"] == "managed"}
        del ids["aws_sns_sms_preferences.all"]  # the one kind that the provider cannot import
        terraform("state", "rm", *ids)
        blocks = [f'import {{\n  to = {address}\n  id = "{key}"\n}}\n' for address, key in ids.items()]
        (tmp_path / "imports.tf").write_text("".join(blocks))
        assert f"{len(ids)} imported, 0 added" in terraform.apply(IS_CHANGED)
        terraform.expect_empty_plan(IS_CHANGED)

        assert f"{RESOURCES} destroyed" in terraform("destroy", "-auto-approve", IS_CHANGED)
        assert "QueueUrls" not in sqs.list_queues()
        assert sns.list_topics()["Topics"] == sns.list_subscriptions()["Subscriptions"] == []
        assert sns.list_platform_applications()["PlatformApplications"] == []
