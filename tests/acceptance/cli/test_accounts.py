"""`cns account`: on the data of a service that runs, and of one that does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from cns_pytest.processes import exports
from lab.harness.processes import keys_in
from lab.harness.running import cns, running
from lab.harness.service import Service

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PLACE = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
"""The exports of an account besides its keys."""


def who(service: Service, keys: dict[str, str]) -> str:
    """The account that these keys belong to, or the code of the refusal."""
    try:
        return str(service.client("sts", **keys).get_caller_identity()["Account"])
    except ClientError as error:
        return str(error.response["Error"]["Code"])


def test_with_the_service_running(service: Service) -> None:
    created = service.cns("account", "create").stdout
    keys = keys_in(created)
    account = who(service, keys)
    assert re.fullmatch(r"\d{12}", account)
    assert account in created
    service.cns("account", "user", "add", account, "ada")
    shown = dict(line.split(maxsplit=1) for line in service.cns("account", "show", account).stdout.splitlines())
    assert (shown["account"], shown["users"], shown["root"]) == (account, "1", f"keys  {keys['key']}")
    printed = exports(created)
    assert tuple(printed) == (*KEYS, *PLACE)
    assert [printed[name] for name in PLACE] == [service.environment[name] for name in PLACE], "of the running service"
    listed = service.cns("account", "list").stdout.splitlines()
    assert listed[0].split() == ["account", "created", "users", "name", "password", "root", "keys"]
    assert any(re.fullmatch(rf"{account}  \S{{24}} +1 +- +no +{keys['key']}", line) for line in listed)
    assert any(service.environment["AWS_ACCESS_KEY_ID"] in line for line in listed)
    assert all(keys["secret"] not in line for line in listed)

    renewed = keys_in(service.cns("account", "rotate", account).stdout)
    assert who(service, keys) == "InvalidClientTokenId", "the former keys are refused at once"
    assert who(service, renewed) == account


def test_accounts_do_not_see_one_another(service: Service, stranger: dict[str, str], queue: str) -> None:
    theirs = service.client("sqs", **stranger)
    assert queue not in theirs.list_queues().get("QueueUrls", [])
    with pytest.raises(theirs.exceptions.QueueDoesNotExist):
        theirs.get_queue_url(QueueName=queue.rpartition("/")[2])


@pytest.mark.extended
def test_with_the_service_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    created = cns("account", "create", "--data", data).stdout
    assert tuple(exports(created)) == (*KEYS, *PLACE)
    keys = keys_in(created)
    _, line = cns("account", "list", "--data", data).stdout.splitlines()
    account = line.partition(" ")[0]
    renewed = keys_in(cns("account", "rotate", account, "--data", data).stdout)
    with running(data) as service:
        assert service.environment == {}, "there is an account, so none is made at the start"
        assert who(service, keys) == "InvalidClientTokenId"
        assert who(service, renewed) == account


@pytest.mark.parametrize("command", ["show", "rotate", "delete"])
def test_an_account_that_is_not(service: Service, command: str) -> None:
    refused = service.cns("account", command, "999999999999", check=False)
    assert (refused.returncode, refused.stderr) == (1, "cns: there is no account 999999999999\n")
