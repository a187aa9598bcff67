"""The guides: the `sh` blocks of a page, typed into one shell, print what the `text` blocks below them say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.harness.ports import free_port
from lab.harness.processes import BIN
from lab.harness.running import Up, running
from lab.harness.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs" / "guides"
PORTS = ("6060", "6070", "4566", "6443")
"""Ports that the pages name; a run takes free ones instead."""
ANY = "…"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_PRELUDE = """set -eu
aws() { command aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"; }
"""

PAGES = {page.stem: _BLOCK.findall(page.read_text()) for page in sorted(GUIDES.glob("*.md"))}
SESSIONS = [name for name, blocks in PAGES.items() if blocks]

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service without a test clock: commands have the same time as its messages."""
    with running(tmp_path_factory.mktemp("guides") / "data") as started:
        yield started


@pytest.mark.parametrize("name", SESSIONS)
def test_the_commands_print_what_the_page_says(own_service: Up, tmp_path: Path, name: str) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ports = {port: str(free_port()) for port in PORTS}
    blocks = [(_with_ports(shell, ports), _with_ports(text, ports)) for shell, text in PAGES[name]]
    typed = [f"{{\n{shell}}} > out-{number}\n" for number, (shell, _) in enumerate(blocks)]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "CNS_"))}
    done = subprocess.run(
        ["bash", "-s"],
        input=_PRELUDE + "".join(typed),
        cwd=tmp_path,
        env={
            **kept,
            **own_service.environment,
            "AWS_PAGER": "",
            "CNS_DATA": str(own_service.data),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    printed = [
        path.read_text() if path.exists() else "" for path in (tmp_path / f"out-{n}" for n in range(len(blocks)))
    ]
    assert done.returncode == 0, "\n".join([*printed, done.stdout, done.stderr])
    for (shell, text), output in zip(blocks, printed, strict=True):
        assert not text or _pattern(text).fullmatch(output.strip()), f"{shell}printed\n{output}"


def _with_ports(text: str, ports: dict[str, str]) -> str:
    text = text.replace("--compat localstack", f"--compat localstack --port {ports['4566']}")
    return re.sub(rf"\b({'|'.join(PORTS)})\b", lambda found: ports[found[0]], text)


def _pattern(text: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in text.strip().split(ANY)]
    return re.compile(".*".join(parts), re.DOTALL)
