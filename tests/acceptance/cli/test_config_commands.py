"""`cns config`: a file of resources and a running service, over its API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.harness.ports import free_port
from lab.harness.running import Up, running
from tests.acceptance.cli.command_runs import run

FILE = """
queues:
  orders: {attributes: {VisibilityTimeout: 60}, tags: {team: shop}}
topics: {news: }
subscriptions: [{topic: news, protocol: sqs, endpoint: orders, allow: true, rawDelivery: true}]
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Up]:
    """One whose account has nothing else: --prune deletes what it has."""
    with running(tmp_path / "data") as started:
        yield started


def test_apply_diff_export_and_prune(service: Up, tmp_path: Path) -> None:
    file, exported = tmp_path / "cns.yaml", tmp_path / "exported.yaml"
    file.write_text(FILE)
    differs = run(service, "config", "diff", file)
    assert (differs.returncode, differs.stdout.splitlines()[0]) == (1, "create queue orders")
    applied = run(service, "config", "apply", file, "--json")
    assert [json.loads(line)["action"] for line in applied.stdout.splitlines()] == ["create"] * 3, applied.stderr
    assert run(service, "config", "apply", file).stdout.count("unchanged ") == 3
    same = run(service, "config", "diff", file, "--prune")
    assert (same.returncode, same.stdout) == (0, ""), same.stderr

    exported.write_text(run(service, "config", "export").stdout)
    assert run(service, "config", "diff", "--prune", exported).returncode == 0
    assert json.loads(run(service, "config", "export", "--json").stdout)["queues"]["orders"]["tags"] == {"team": "shop"}

    assert run(service, "publish", "news", "hello").returncode == 0
    received = run(service, "queue", "receive", "orders", "--json")
    assert json.loads(received.stdout)["body"] == "hello"
    changed = run(service, "queue", "set", "orders", "VisibilityTimeout=5")
    assert changed.returncode == 0, changed.stderr
    assert "    VisibilityTimeout: 5 → 60" in run(service, "config", "apply", file).stdout

    file.write_text("queues: {orders: }")
    asked = run(service, "config", "apply", "--prune", file)
    assert (asked.returncode, asked.stderr.splitlines()[-1]) == (2, "cns: --prune deletes these: say --yes")
    assert run(service, "topic", "list").stdout == "news\n"
    pruned = run(service, "config", "apply", "--prune", "--yes", file)
    assert [line.split()[:2] for line in pruned.stdout.splitlines()] == [
        ["unchanged", "queue"],
        ["deleted", "subscription"],
        ["deleted", "topic"],
    ]


def test_refusals_say_where_and_end_with_their_exit_codes(service: Up, tmp_path: Path) -> None:
    def ended(text: str, **more: str) -> tuple[int, str]:
        (tmp_path / "f").write_text(text)
        done = run(service, "config", "apply", tmp_path / "f", **more)
        assert done.stdout == ""
        return done.returncode, done.stderr.replace(str(tmp_path), "")

    assert ended("queues: {q: {tag: {}}}") == (2, "cns: /f:1: queues.q.tag: is no key here\n")
    code, said = ended("queues: {q: {deadLetterQueue: {queue: none, maxReceiveCount: 2}}}")
    assert (code, said[:46]) == (1, "cns: /f:1: queues.q.deadLetterQueue: InvalidPa"), said
    code, said = ended("accounts: {123456789012: {queues: {q: }}}")
    assert (code, said.endswith("and the file is also for 123456789012\n")) == (1, True), said
    assert ended("queues: {}", AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")[0] == 69
    code, said = ended("queues: {q: }", AWS_SECRET_ACCESS_KEY="wrong")
    assert (code, "InvalidClientTokenId" in said) == (1, True), said
    assert ended("queues: {}", AWS_PROFILE="none") == (2, "cns: The config profile (none) could not be found\n")
    assert run(service, "config", "apply", tmp_path / "missing").returncode == 2
