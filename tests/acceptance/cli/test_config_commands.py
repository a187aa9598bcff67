"""`cns config`: a file of resources and a running service, over its API."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.harness.ports import free_port
from lab.harness.running import Up, running
from tests.acceptance.cli.command_runs import run

EXAMPLE = Path(__file__).parents[3] / "examples" / "declarative.yaml"
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


def test_the_example_makes_what_the_doctor_finds_well(service: Up) -> None:
    applied = run(service, "config", "apply", EXAMPLE)
    assert applied.returncode == 0, applied.stderr
    examined = run(service, "doctor", "--json", "--data", service.data)
    assert [one for one in json.loads(examined.stdout)["findings"] if one["level"] == "problem"] == []
    assert run(service, "config", "diff", EXAMPLE).stdout == ""


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
    assert (code, said.endswith("and the file is also for 123456789012: see --accounts\n")) == (1, True), said
    assert ended("queues: {}", AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")[0] == 69
    code, said = ended("queues: {q: }", AWS_SECRET_ACCESS_KEY="wrong")
    assert (code, "InvalidClientTokenId" in said) == (1, True), said
    assert ended("queues: {}", AWS_PROFILE="none") == (2, "cns: The config profile (none) could not be found\n")
    assert run(service, "config", "apply", tmp_path / "missing").returncode == 2


ACCOUNTS = """
accounts:
  123456789012:
    name: Shop
    key: {id: {env: SHOP_ID}, secret: {env: SHOP_SECRET}}
    users: {alice: {keys: [{id: {env: ALICE_ID}, secret: {env: ALICE_SECRET}}]}}
    queues: {orders: {attributes: {VisibilityTimeout: 60}}}
    topics: {news: }
    subscriptions: [{topic: news, protocol: sqs, endpoint: orders, allow: true}]
"""


def test_accounts_with_their_users_keys_and_resources(service: Up, tmp_path: Path) -> None:
    file, data = tmp_path / "cns.yaml", f"{tmp_path / 'data'}"
    file.write_text(ACCOUNTS)
    keys = {"SHOP_ID": "A" * 16, "SHOP_SECRET": "s" * 20, "ALICE_ID": "B" * 16, "ALICE_SECRET": "t" * 20}

    def config(*words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        other = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}  # not the service of the data directory
        return run(service, "config", *words, "--accounts", "--data", data, **{**keys, **other, **more})

    assert [line.split()[:2] for line in config("diff", file).stdout.splitlines() if line[0] != " "] == [
        ["create", "account"],
        ["change", "account"],
        ["create", "user"],
        ["create", "queue"],
        ["create", "topic"],
        ["create", "subscription"],
    ]
    applied = config("apply", file, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert (applied.returncode, applied.stderr) == (0, "")
    assert config("diff", file, "--prune").stdout == ""
    alice = {"AWS_ACCESS_KEY_ID": keys["ALICE_ID"], "AWS_SECRET_ACCESS_KEY": keys["ALICE_SECRET"]}
    assert run(service, "queue", "list", **alice).stdout == "orders\n"

    exported = config("export")
    shop = yaml.safe_load(exported.stdout)["accounts"]["123456789012"]
    assert (shop["name"], shop["users"], list(shop["queues"])) == ("Shop", {"alice": {}}, ["orders"])
    assert not any(secret in exported.stdout for secret in keys.values())
    file.write_text("accounts: {123456789012: {queues: {}}}")
    asked = config("apply", "--prune", file)
    assert "delete queue orders of account 123456789012\n" in asked.stderr, asked.stderr
    file.write_text(exported.stdout)
    assert config("diff", file, "--prune").returncode == 0

    file.write_text(ACCOUNTS)
    said = f"cns: {file}:6: accounts.123456789012.users.alice.keys.0: {keys['ALICE_ID']} is the key of another, or has"
    assert config("apply", file, ALICE_SECRET="u" * 20).stderr == f"{said} another secret\n"
    file.write_text("accounts: {12345678901: {name: Short}}")
    refused = config("diff", file)
    said = f"cns: {file}:1: accounts.12345678901: String should match pattern '^[0-9]{{12}}$'\n"
    assert (refused.returncode, refused.stderr) == (2, said)
    file.write_text("accounts: {123456789013: {queues: {q: }}}")
    assert config("apply", file).stderr.endswith("accounts.123456789013: is a new account: give its key\n")
    file.write_text("queues: {q: }")
    refused = config("apply", file)
    said = f"cns: {file}:1: there are 2 accounts: the file must say under accounts which has what\n"
    assert (refused.returncode, refused.stderr) == (2, said)


def test_a_service_that_takes_the_keys_for_another_account_is_refused(tmp_path: Path) -> None:
    """It would list, and prune, what that account has."""
    with running(tmp_path / "data", "--auth=off") as service:
        refused = run(service, "config", "export", "--accounts", "--data", tmp_path / "data")
        said = f"cns: {service.url} takes the key of account "
        assert (refused.returncode, refused.stdout, refused.stderr.startswith(said)) == (1, "", True), refused.stderr
