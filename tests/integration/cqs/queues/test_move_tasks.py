"""The move task API: refused requests and their error texts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from cns_common.aws.call import root_caller
from cqs.redrive.task import MoveTask
from tests.integration.cqs.queues.move_task_fixture import MoveTaskFixture, move_site
from tests.integration.cqs.sqs import ACCOUNT, OTHER_ACCOUNT, Sqs, refused

NO_SOURCE = "The resource that you specified for the SourceArn parameter doesn't exist."
NO_DESTINATION = "The resource that you specified for the DestinationArn parameter doesn't exist."
FORM = "You must use this format to specify the {}: arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
SAME = "Source queue arn and destination queue arn cannot be the same."
RANGE = "Value for parameter {} is invalid. Reason: You must enter a number that's between 1 and {}."
RATE = RANGE.format("MaxNumberOfMessagesPerSecond", 500)
LISTED = RANGE.format("MaxResults", 10)
ABSENT = f"arn:aws:sqs:us-east-1:{ACCOUNT}:absent"


@pytest.fixture
async def fixture(sqs: Sqs) -> MoveTaskFixture:
    return await move_site(sqs)


@pytest.mark.spec("moves.source-missing", "moves.arn-form", "moves.same", "moves.rate", "moves.destination-missing")
@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        ({}, "MissingParameter", "The request must contain the parameter SourceArn."),
        ({"SourceArn": ""}, "InvalidParameterValue", FORM.format("SourceArn")),
        ({"SourceArn": "dead"}, "InvalidParameterValue", FORM.format("SourceArn")),
        ({"SourceArn": ABSENT}, "ResourceNotFoundException", NO_SOURCE),
        ({"SourceArn": "{dead}", "DestinationArn": "x"}, "InvalidParameterValue", FORM.format("DestinationArn")),
        ({"SourceArn": "{dead}", "DestinationArn": ABSENT}, "ResourceNotFoundException", NO_DESTINATION),
        ({"SourceArn": "{dead}", "DestinationArn": "{dead}"}, "InvalidParameterValue", SAME),
        ({"SourceArn": "{dead}", "MaxNumberOfMessagesPerSecond": 0}, "InvalidParameterValue", RATE),
        ({"SourceArn": "{dead}", "MaxNumberOfMessagesPerSecond": 501}, "InvalidParameterValue", RATE),
        (
            {"SourceArn": "{other}"},
            "InvalidParameterValue",
            "Source queue must be configured as a Dead Letter Queue.",
        ),
    ],
)
async def test_start_refused(fixture: MoveTaskFixture, members: dict[str, Any], code: str, text: str) -> None:
    arns = {"{dead}": await fixture.sqs.arn(fixture.dead), "{other}": await fixture.sqs.arn(fixture.other)}
    members = {name: arns.get(value, value) for name, value in members.items()}
    assert await refused(fixture.sqs("StartMessageMoveTask", **members)) == (code, text)


async def test_on_a_full_disk_a_task_is_cancelled(fixture: MoveTaskFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on once there is room, and nobody could stop it before."""
    handle = await fixture.start()
    space = fixture.sqs.engine._database.space
    monkeypatch.setattr(space, "_free_bytes", lambda _: 0)
    space.mark_full()
    await fixture.sqs("CancelMessageMoveTask", TaskHandle=handle)
    assert (await fixture.end())["Status"] == "CANCELLED"


@pytest.mark.spec("moves.not-dlq")
async def test_a_queue_is_no_dead_letter_queue_once_no_policy_leads_to_it(fixture: MoveTaskFixture) -> None:
    await fixture.sqs("SetQueueAttributes", QueueUrl=fixture.source, Attributes={"RedrivePolicy": ""})
    assert (await refused(fixture.start()))[1] == "Source queue must be configured as a Dead Letter Queue."


@pytest.mark.spec("moves.same-type")
async def test_the_destination_is_of_the_source_s_type(fixture: MoveTaskFixture) -> None:
    fifo = await fixture.sqs.arn(await fixture.sqs.queue("other.fifo"))
    assert (await refused(fixture.start(DestinationArn=fifo)))[0] == "InvalidParameterValue"


@pytest.mark.spec("moves.one-per-source")
async def test_a_source_has_one_task_at_a_time(fixture: MoveTaskFixture) -> None:
    await fixture.start()
    assert await refused(fixture.start()) == (
        "InvalidParameterValue",
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    )
    assert (await fixture.end())["Status"] == "COMPLETED"
    await fixture.start()


@pytest.mark.spec("moves.active-max")
async def test_an_account_has_so_many_active_tasks(fixture: MoveTaskFixture) -> None:
    store = fixture.tasks.store
    for number in range(100):
        task = MoveTask(id=str(number), account=ACCOUNT, source_arn=f"a{number}", source_id="", started_ms=1, to_move=0)
        assert await store.create(task)
    assert (await refused(fixture.start()))[0] == "OverLimit"


@pytest.mark.spec("moves.owner-only")
async def test_other_accounts_start_list_and_cancel_none(fixture: MoveTaskFixture) -> None:
    handle = await fixture.start()
    stranger = root_caller(OTHER_ACCOUNT)
    arn = await fixture.sqs.arn(fixture.dead)
    allow = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    await fixture.sqs("SetQueueAttributes", QueueUrl=fixture.dead, Attributes={"Policy": policy})
    calls: list[tuple[str, dict[str, Any]]] = [
        ("StartMessageMoveTask", {"SourceArn": arn}),
        ("ListMessageMoveTasks", {"SourceArn": arn}),
        ("CancelMessageMoveTask", {"TaskHandle": handle}),
    ]
    for action, members in calls:
        assert (await refused(fixture.sqs(action, caller=stranger, **members)))[0] == "AccessDenied"


@pytest.mark.spec("moves.permissions")
async def test_a_denial_of_sending_to_the_destination_counts(fixture: MoveTaskFixture) -> None:
    deny = {"Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    await fixture.sqs("SetQueueAttributes", QueueUrl=fixture.other, Attributes={"Policy": policy})
    assert (await refused(fixture.start(DestinationArn=await fixture.sqs.arn(fixture.other))))[0] == "AccessDenied"


@pytest.mark.spec("moves.handle-undecodable", "moves.handle-unknown")
@pytest.mark.parametrize(
    ("handle", "code", "text"),
    [
        (None, "MissingParameter", "The request must contain the parameter TaskHandle."),
        ("?", "InvalidParameterValue", "Value for parameter TaskHandle is invalid."),
        ("eHg=", "InvalidParameterValue", "Value for parameter TaskHandle is invalid."),
        ("\u00fc", "InvalidParameterValue", "Value for parameter TaskHandle is invalid."),
        ({"taskId": "x"}, "InvalidParameterValue", "Value for parameter TaskHandle is invalid."),
        ({"taskId": "x", "sourceArn": "y"}, "InvalidParameterValue", "Value for parameter TaskHandle is invalid."),
        ({"taskId": "x", "sourceArn": ABSENT}, "ResourceNotFoundException", NO_SOURCE),
        ({"taskId": "x", "sourceArn": "{dead}"}, "ResourceNotFoundException", "Task does not exist."),
    ],
)
async def test_handles_that_name_no_task(fixture: MoveTaskFixture, handle: Any, code: str, text: str) -> None:
    if isinstance(handle, dict):
        whole = json.dumps(handle).replace("{dead}", await fixture.sqs.arn(fixture.dead))
        handle = base64.b64encode(whole.encode()).decode()
    members = {} if handle is None else {"TaskHandle": handle}
    assert await refused(fixture.sqs("CancelMessageMoveTask", **members)) == (code, text)


@pytest.mark.spec("moves.list-limits", "moves.list-missing-source")
@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        ({}, "MissingParameter", "The request must contain the parameter SourceArn."),
        ({"SourceArn": ABSENT}, "ResourceNotFoundException", NO_SOURCE),
        ({"SourceArn": "{dead}", "MaxResults": 0}, "InvalidParameterValue", LISTED),
        ({"SourceArn": "{dead}", "MaxResults": 11}, "InvalidParameterValue", LISTED),
    ],
)
async def test_lists_that_are_refused(fixture: MoveTaskFixture, members: dict[str, Any], code: str, text: str) -> None:
    dead = await fixture.sqs.arn(fixture.dead)
    members = {name: dead if value == "{dead}" else value for name, value in members.items()}
    assert await refused(fixture.sqs("ListMessageMoveTasks", **members)) == (code, text)
