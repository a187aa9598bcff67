"""The README's first five minutes, typed as a newcomer would, into one shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import yaml

from lab.harness.ports import free_port
from lab.harness.processes import BIN
from lab.harness.running import running
from lab.harness.waiting import PATIENCE_S

README = Path(__file__).parents[3] / "README.md"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    _, _, text = README.read_text().partition(f"\n## {title}")
    return text.partition("\n## ")[0]


def test_the_first_five_minutes(tmp_path: Path) -> None:
    receiver_port = free_port()
    blocks = _BLOCK.findall(section("First five minutes"))
    assert len(blocks) == 4 and blocks.pop(0).startswith(
        ".venv/bin/uv pip install -c requirements/dev.lock awscli boto3\n"
    )
    typed = "\n".join(["shopt -s expand_aliases", "set -e", *blocks]).replace(":6060/", f":{receiver_port}/")
    typed = typed.replace("--port 6060", f"--port {receiver_port}")
    with running(tmp_path / "data") as service:
        done = subprocess.run(
            ["bash", "-s"],
            input=typed,
            cwd=tmp_path,
            env={**os.environ, **service.environment, "PATH": f"{BIN}:{os.environ['PATH']}", "AWS_PAGER": ""},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    decoder, answers, rest = json.JSONDecoder(), [], done.stdout
    while start := rest.find("{") + 1:
        try:
            answer, length = decoder.raw_decode(rest[start - 1 :])
        except ValueError:
            rest = rest[start:]
            continue
        answers.append(answer)
        rest = rest[start - 1 + length :]
    received = [answer["Messages"][0]["Body"] for answer in answers if "Messages" in answer]
    assert received[0] == "hello" and json.loads(received[1])["Message"] == "hello, everybody", done.stdout
    shown = answers[-1]
    assert (shown["received"], shown["confirmed"]) == (1, 1), shown
    assert "to the web" in json.dumps(shown)


def test_the_snippet_for_a_compose_file(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "compose.yml").write_text(snippet)
    check = ("check-jsonschema", "--quiet", "--builtin-schema", "vendor.compose-spec", tmp_path / "compose.yml")
    subprocess.run([BIN / check[0], *check[1:]], check=True)
    service = yaml.safe_load(snippet)["services"]["cns"]
    variables = service["environment"] | {"CNS_HOST": "0.0.0.0"}
    with running(tmp_path / "data", *service["command"][1:], environment=variables) as up:
        url = up.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    assert url == f"{variables['CNS_PUBLIC_URL']}/000000000000/q"


def test_how_to_have_cns_on_the_path() -> None:
    """The commands of the sections below need `cns` on the path."""
    first = section("Run it")
    assert 'export PATH="$PWD/.venv/bin:$PATH"' in first
    assert ".venv/bin/cns" not in README.read_text()
