"""The programs of docs/webhooks.md take the service's messages for genuine, and no others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.parts import need
from lab.harness.running import Up
from lab.harness.waiting import PATIENCE_S
from tests.acceptance.topics import Topic

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()
PROGRAMS: dict[str, tuple[str, Sequence[str], Sequence[str]]] = {
    "python": ("verify.py", (sys.executable,), ()),
    "javascript": ("verify.js", ("node",), ("node",)),
    "go": ("verify.go", (), ("go",)),
    "php": ("verify.php", ("php",), ("php",)),
    "sh": ("verify.sh", ("sh",), ("curl", "jq")),
}
"""The file of each, what runs it, and the parts that this needs."""
IN_THE_GATE = "sh"
LANGUAGES = [
    pytest.param(name, marks=pytest.mark.slice if name == IN_THE_GATE else pytest.mark.extended) for name in PROGRAMS
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("version", ["1", "2"])
def test_it_accepts_what_the_service_signed_and_nothing_else(
    service: Up, topic: Topic, endpoint: Endpoint, tmp_path: Path, language: str, version: str
) -> None:
    file, runner, parts = PROGRAMS[language]
    for part in parts:
        need(part)
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / file).write_text(text)
    if language == "go":
        file = "verify"
        subprocess.run(["go", "build", "-o", file, "verify.go"], cwd=tmp_path, check=True, timeout=PATIENCE_S)

    def verify(message: dict[str, Any], address: str = service.url) -> bool:
        words = [*runner, str(tmp_path / file), address]
        done = subprocess.run(
            words,
            input=json.dumps(message),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            cwd=tmp_path,
        )
        return done.returncode == 0

    topic.sns.set_topic_attributes(TopicArn=topic.arn, AttributeName="SignatureVersion", AttributeValue=version)
    topic.subscribe("http", endpoint.url)
    topic.publish("Grüße\n", Subject="hello")
    topic.publish("plain")
    endpoint.wait(accepted=2)
    confirmation, *notifications = [json.loads(one["body"]) for one in endpoint.look()["messages"]]
    assert confirmation["Type"] == "SubscriptionConfirmation"
    assert {each["SignatureVersion"] for each in notifications} == {version}
    assert [verify(message) for message in (confirmation, *notifications)] == [True, True, True]
    assert not verify({**notifications[0], "Message": "forged"})
    assert not verify(notifications[0], "https://another.example.com")
