"""Each command that prints data has `--json`, whose members docs/operations/reference.md names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cns_cli.main import app
from tests.operator_docs import section
from tests.unit.cli.test_help import ALL

WITHOUT: Mapping[str, str] = {
    "up": "runs the service",
    "api": "runs a process",
    "worker": "runs a process",
    "receiver": "runs a process",
    "logs": "prints records that are JSON",
    "completion": "prints a shell's code",
    "configure": "asks for what it writes",
}
REMOTE = ("queue", "topic", "subscriptions", "dead-letters", "publish")
"""They print what the REST API answers; its document is checked elsewhere."""
SECTION = section("JSON of commands")
NO_EVENTS: Mapping[str, str | None] = {"CNS_EVENTS": "off", "CNS_DATA": None}
RUN = CliRunner()


def documented() -> dict[str, list[str]]:
    """The members that the table names, by the words of the command."""
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", SECTION, re.MULTILINE)
    return {
        words: re.findall("`([A-Za-z]+)`", members)
        for commands, members in rows
        for words in re.findall("`([^`]+)`", commands)
    }


MEMBERS = documented()


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) for words, _ in ALL])
def test_each_command_has_json(words: tuple[str, ...], command: Any) -> None:
    name = " ".join(words)
    has = any("--json" in option.opts for option in command.params)
    assert has != (name in WITHOUT), f"cns {name}: give it --json and print one value per line"
    if has and words[0] not in REMOTE:
        assert name in MEMBERS, f"cns {name} is not in the table of docs/operations/reference.md"


def test_the_table_names_no_other_commands() -> None:
    assert set(MEMBERS) <= {" ".join(words) for words, _ in ALL}
    assert set(WITHOUT) <= {" ".join(words) for words, _ in ALL}


def printed(data: Path, words: str, *arguments: str) -> list[dict[str, Any]]:
    """The values that a command prints, whose members are compared with the table."""
    done = RUN.invoke(app, [*words.split(), *arguments, "--data", str(data), "--json"], env=NO_EVENTS)
    assert done.exit_code == 0, (words, done.output, done.exception)
    values = [json.loads(line) for line in done.stdout.splitlines()]
    for value in values:
        assert list(value) == MEMBERS[words], words
    return values


def test_commands_on_a_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cns_cli.store_access.set_up_logs", lambda *_: None)  # its standard error ends with this test
    data = tmp_path / "data"
    (made,) = printed(data, "account create")
    account = made["account"]
    (shown,) = printed(data, "account list")
    assert (shown["keyIds"], shown["users"]) == ([made["keyId"]], 0)
    (rotated,) = printed(data, "account rotate", account)
    assert printed(data, "account show", account)[0]["keyIds"] == [rotated["keyId"]]
    (user,) = printed(data, "account user add", account, "alice")
    assert (user["user"], user["account"]) == ("alice", account)
    (second,) = printed(data, "account user key add", account, "alice")
    assert printed(data, "account user key disable", account, "alice", second["keyId"])[0]["active"] is False
    assert printed(data, "account user key enable", account, "alice", second["keyId"])[0]["active"] is True
    assert printed(data, "account user disable", account, "alice")[0]["active"] is False
    assert printed(data, "account user enable", account, "alice")[0]["active"] is True
    (listed,) = printed(data, "account user list", account)
    assert [key["keyId"] for key in listed["keys"]] == [user["keyId"], second["keyId"]]
    printed(data, "account user key delete", account, "alice", second["keyId"])
    printed(data, "account user delete", account, "alice")
    assert printed(data, "account user list", account) == []
    bob = printed(data, "account user add", account, "bob")[0]["user"]
    assert (bob, printed(data, "account show", account)[0]["users"]) == ("bob", 1)
    assert printed(data, "operator token")[0]["expiresAt"] > made_at(data)
    assert printed(data, "sms opt-out", "+14155550100") == [{"account": account, "optedOut": "+14155550100"}]
    assert printed(data, "sms opt-out", "+14155550101", "--account", account)[0]["account"] == account
    assert [one["optedOut"] for one in printed(data, "sms list")] == ["+14155550100", "+14155550101"]
    assert printed(data, "sms opt-in", "+14155550101") == [{"account": account, "optedIn": "+14155550101"}]
    assert [one["optedOut"] for one in printed(data, "sms list")] == ["+14155550100"]
    assert RUN.invoke(app, ["sms", "opt-in", "415", "--data", str(data)]).exit_code == 1
    opted, _ = printed(data, "activity", "--action", "OptOut")
    assert (opted["target"], opted["detail"]) == (account, "number that ends in 0100")
    assert printed(data, "outbox list") == []
    (act,) = printed(data, "activity", "--action", "AddUserKey")
    assert (act["target"], act["via"], act["result"]) == (account, "command", "ok") and second["keyId"] in act["detail"]
    assert printed(data, "pool list") == [{"workers": {}, "sizes": []}]
    assert printed(data, "check")[0]["faults"] == []


def made_at(data: Path) -> int:
    return int(printed(data, "account list")[0]["createdAt"])
