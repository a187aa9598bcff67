"""Permissions, policy limits and tags on the wire: accepted values, and the error texts for others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cqs.queues.policies import read_policy
from tests.integration.cqs.sqs import OTHER_ACCOUNT
from tests.integration.cqs.sqs_wire import Refusal, Wire, invalid, invalid_value, missing, modelled

spec = pytest.mark.spec
GRANT: dict[str, Any] = {"Label": "label", "AWSAccountIds": [OTHER_ACCOUNT], "Actions": ["SendMessage"]}
LABEL = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
NO_ACTION = "Please refer to the appropriate WSDL for a list of valid actions."
KEYS = invalid_value("Tag keys must be between 1 and 128 characters in length.")
VALUES = invalid_value("Tag values must be between 0 and 256 characters in length.")
RESERVED = invalid_value("Tag keys must not start with the reserved prefix aws:.")


def over_limit(text: str) -> Refusal:
    return modelled("OverLimit", text, 403)


def too_many(what: str, found: int, most: int) -> Refusal:
    return over_limit(f"{found} {what} were found in the submitted policy, max allowed is {most}")


@pytest.fixture
async def url(wire: Wire) -> str:
    return str((await wire("CreateQueue", QueueName="q"))["QueueUrl"])


# -- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"Label": "Az09_-" * 13 + "ab"}, marks=spec("permission.label")),
        pytest.param({"Actions": ["*"]}, marks=spec("permission.all-actions")),
        pytest.param({"Actions": ["SendMessage"] * 7}, marks=spec("permission.actions-max")),
    ],
)
async def test_permissions(wire: Wire, url: str, changes: dict[str, Any]) -> None:
    assert await wire("AddPermission", QueueUrl=url, **GRANT | changes) == {}
    shown = await wire("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"])
    grant = GRANT | changes
    (statement,) = json.loads(shown["Attributes"]["Policy"])["Statement"]
    actions = [f"SQS:{action}" for action in grant["Actions"]]
    assert (statement["Sid"], statement["Action"]) == (grant["Label"], actions if len(actions) > 1 else actions[0])


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        *(
            pytest.param({"Label": label}, invalid("Label", label, LABEL), marks=spec("permission.label"))
            for label in ("a b", "a.b", "x" * 81)
        ),
        pytest.param(
            {"Actions": []},
            missing("Actions"),
            marks=spec("permission.no-actions"),
        ),
        pytest.param(
            {"Actions": ["SendMessage"] * 8},
            over_limit("8 Actions were found, maximum allowed is 7."),
            marks=spec("permission.actions-max"),
        ),
        *(
            pytest.param(
                {"Actions": [action]},
                invalid("ActionName", f"SQS:{action}", NO_ACTION),
                marks=spec("permission.bad-action"),
            )
            for action in ("Nonsense", "sendmessage", "SQS:SendMessage")
        ),
        pytest.param(
            {"Label": "taken", "Actions": ["ReceiveMessage"]},
            invalid("Label", "taken", "Already exists."),
            marks=spec("permission.duplicate-label"),
        ),
    ],
)
async def test_permissions_refused(wire: Wire, url: str, changes: dict[str, Any], refusal: Refusal) -> None:
    await wire("AddPermission", QueueUrl=url, **GRANT | {"Label": "taken"})
    await wire.refuses(refusal, "AddPermission", QueueUrl=url, **GRANT | changes)


@spec("permission.duplicate-label")
async def test_the_same_permission_again_changes_nothing(wire: Wire, url: str) -> None:
    assert await wire("AddPermission", QueueUrl=url, **GRANT) == {}
    before = await wire("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"])
    assert await wire("AddPermission", QueueUrl=url, **GRANT) == {}
    assert await wire("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"]) == before


@spec("permission.unknown-label", "permission.last-removed")
async def test_permissions_removed(wire: Wire, url: str) -> None:
    for _ in range(2):  # without a policy, then with one
        refusal = invalid("Label", "other", "can't find label.")
        await wire.refuses(refusal, "RemovePermission", QueueUrl=url, Label="other")
        await wire("AddPermission", QueueUrl=url, **GRANT)
    assert await wire("RemovePermission", QueueUrl=url, Label="label") == {}
    assert await wire("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"]) == {}


# -- policies ---------------------------------------------------------------------------------------------------------


def policy(n: int = 1, **changed: Any) -> str:
    """A policy with this many statements."""
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*", **changed}
    return json.dumps({"Statement": [statement] * n})


def padded(size: int) -> str:
    return policy(Sid="x" * (size - len(policy(Sid=""))))


def principals(n: int) -> str:
    return policy(Principal={"AWS": [OTHER_ACCOUNT] * n})


def conditions(n: int) -> str:
    """Half of the conditions in each of two statements, under two operators."""
    half = {f"aws:ResourceTag/{at}": "x" for at in range(n // 2)}
    other = policy(Condition={"StringEquals": {f"aws:ResourceTag/{at}": "x" for at in range(n - n // 2)}})
    both = [*json.loads(policy(Condition={"StringLike": half}))["Statement"], *json.loads(other)["Statement"]]
    return json.dumps({"Statement": both})


@pytest.mark.parametrize(
    ("most", "more", "refusal"),
    [
        pytest.param(
            padded(8_192),
            padded(8_193),
            over_limit("Submitted policy is over max allowed size."),
            marks=spec("permission.policy-bytes"),
        ),
        pytest.param(
            policy(Action=["sqs:SendMessage"] * 7),
            policy(Action=["sqs:SendMessage"] * 8),
            over_limit("8 actions were found in a statement from the submitted policy, max allowed is 7"),
            marks=spec("permission.policy-actions"),
        ),
        pytest.param(
            policy(20), policy(21), too_many("statements", 21, 20), marks=spec("permission.policy-statements")
        ),
        pytest.param(
            principals(50), principals(51), too_many("principals", 51, 50), marks=spec("permission.policy-principals")
        ),
        pytest.param(
            conditions(10), conditions(11), too_many("conditions", 11, 10), marks=spec("permission.policy-conditions")
        ),
    ],
    ids=["bytes", "actions", "statements", "principals", "conditions"],
)
async def test_quotas_of_policies(wire: Wire, url: str, most: str, more: str, refusal: Refusal) -> None:
    await wire.refuses(refusal, "SetQueueAttributes", QueueUrl=url, Attributes={"Policy": more})
    await wire("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": most})


def test_a_policy_with_more_actions_that_was_stored_before_is_read() -> None:
    (statement,) = read_policy(policy(Action=["sqs:SendMessage"] * 8)).statements
    assert len(statement.actions) == 8


# -- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "then"),
    [
        pytest.param({str(n): "x" for n in range(49)}, {"held": "1"}, marks=spec("tag.many")),
        pytest.param({"k" * 128: "x"}, {"held": "1"}, marks=spec("tag.key")),
        pytest.param({"a": "", "b": "v" * 256}, {"held": "1"}, marks=spec("tag.value")),
        pytest.param({"Held": "2", "HELD": "3"}, {"held": "1"}, marks=spec("tag.case")),
        pytest.param({"held": "2"}, {}, marks=spec("tag.overwrite")),
    ],
    ids=["50", "long key", "values", "case", "overwritten"],
)
async def test_tags(wire: Wire, url: str, tags: dict[str, str], then: dict[str, str]) -> None:
    await wire("TagQueue", QueueUrl=url, Tags={"held": "1"})
    assert await wire("TagQueue", QueueUrl=url, Tags=tags) == {}
    assert await wire("ListQueueTags", QueueUrl=url) == {"Tags": {**then, **tags}}


@pytest.mark.parametrize(
    ("tags", "refusal"),
    [
        pytest.param({"": "x"}, KEYS, marks=spec("tag.key")),
        pytest.param({"k" * 129: "x"}, KEYS, marks=spec("tag.key")),
        pytest.param({"k": "v" * 257}, VALUES, marks=spec("tag.value")),
        pytest.param({"aws:k": "x"}, RESERVED, marks=spec("tag.reserved")),
        pytest.param(
            {str(n): "x" for n in range(51)},
            invalid_value("Too many tags added for queue q."),
            marks=spec("tag.many"),
        ),
    ],
    ids=["empty key", "long key", "long value", "reserved", "51"],
)
async def test_tags_refused(wire: Wire, tags: dict[str, str], refusal: Refusal) -> None:
    await wire.refuses(refusal, "CreateQueue", QueueName="q", tags=tags)
    url = (await wire("CreateQueue", QueueName="q"))["QueueUrl"]
    await wire.refuses(refusal, "TagQueue", QueueUrl=url, Tags=tags)
    assert await wire("ListQueueTags", QueueUrl=url) == {}


@spec("tag.many")
async def test_one_tag_too_many(wire: Wire, url: str) -> None:
    await wire("TagQueue", QueueUrl=url, Tags={str(n): "x" for n in range(50)})
    refusal = invalid_value("Too many tags added for queue q.")
    await wire.refuses(refusal, "TagQueue", QueueUrl=url, Tags={"one more": "x"})
    await wire("TagQueue", QueueUrl=url, Tags={"0": "y"})


@spec("tag.untag-absent", "tag.none-listed", "tag.none-given", "tag.case")
async def test_tags_are_removed(wire: Wire, url: str) -> None:
    await wire("TagQueue", QueueUrl=url, Tags={"a": "1"})
    assert await wire("UntagQueue", QueueUrl=url, TagKeys=["A", "absent"]) == {}
    assert await wire("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "1"}}
    await wire("UntagQueue", QueueUrl=url, TagKeys=["a"])
    assert await wire("ListQueueTags", QueueUrl=url) == {}
    await wire.refuses(missing("Tags"), "TagQueue", QueueUrl=url)
    await wire.refuses(missing("TagKeys"), "UntagQueue", QueueUrl=url)
