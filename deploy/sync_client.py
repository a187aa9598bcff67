"""Generates `cns/client/sync_calls` from `cns/client/async_calls`, so that no call is written twice.

    python -m deploy.sync_client

`make format` runs it; a test compares. unasync drops `async` and `await`; ruff formats what becomes shorter.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

CLIENT = Path(__file__).parents[1] / "cns" / "client"
SOURCE, TARGET = CLIENT / "async_calls", CLIENT / "sync_calls"
NAMES = {
    "AsyncAdministrationCalls": "AdministrationCalls",
    "AsyncConnection": "Connection",
    "AsyncDeadLetterCalls": "DeadLetterCalls",
    "AsyncDeliveryCalls": "DeliveryCalls",
    "AsyncClient": "Client",
    "aclose": "close",
    "async_calls": "sync_calls",
}
RUFF = Path(sys.executable).parent / "ruff"
HEADER = "# Generated from cns/client/async_calls by `make format`: change it there.\n"


def generate() -> dict[str, str]:
    """The generated modules, by file name."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        rule = unasync.Rule(fromdir=f"{SOURCE}/", todir=f"{made}/", additional_replacements=NAMES)
        unasync.unasync_files([str(path) for path in sorted(SOURCE.glob("*.py"))], [rule])
        texts = {path.name: HEADER + path.read_text() for path in sorted(made.glob("*.py"))}
    return {name: _formatted(name, text.replace("for asyncio.", "for threads.")) for name, text in texts.items()}


def _formatted(name: str, text: str) -> str:
    """Imports in their order, and lines joined that became short enough."""
    for words in (("check", "--quiet", "--fix", "--select=I,UP034"), ("format", "--quiet")):
        command = [RUFF, *words, f"--stdin-filename={TARGET / name}", "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for name, text in generate().items():
        (TARGET / name).write_text(text)


if __name__ == "__main__":
    main()
