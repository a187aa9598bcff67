"""RedrivePolicy and RedriveAllowPolicy as attributes: refused values, returned values, and which queues may name
which."""

from __future__ import annotations

import pytest

from tests.integration.cqs.sqs import ACCOUNT, Sqs, refused
from tests.integration.cqs.sqs_wire import Refusal, Wire, invalid

ARNS = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"
WRONG_TYPE = "Dead-letter queue must be same type of queue as the source.."


def policy_of(target: str, receives: object = 1) -> str:
    return f'{{"deadLetterTargetArn":"{ARNS}{target}","maxReceiveCount":{receives}}}'


async def set_policy(sqs: Sqs, url: str, text: str) -> None:
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": text})


async def refused_for(sqs: Sqs, wire: Wire, refusal: Refusal, suffix: str = "", **attributes: str) -> None:
    """The same errors for an existing queue and for a new one."""
    url = await sqs.queue("source" + suffix)
    await wire.refuses(refusal, "SetQueueAttributes", QueueUrl=url, Attributes=attributes)
    if suffix:
        attributes["FifoQueue"] = "true"
    await wire.refuses(refusal, "CreateQueue", QueueName="new" + suffix, Attributes=attributes)


def invalid_policy(text: str, reason: str) -> Refusal:
    return invalid("RedrivePolicy", text, reason)


@pytest.mark.parametrize(
    ("target", "suffix", "attributes", "reason"),
    [
        pytest.param(
            "absent", "", {}, "Dead letter target does not exist.", marks=pytest.mark.spec("redrive.unknown-target")
        ),
        pytest.param("dead.fifo", "", {}, WRONG_TYPE, marks=pytest.mark.spec("redrive.other-type")),
        pytest.param("dead", ".fifo", {}, WRONG_TYPE, marks=pytest.mark.spec("redrive.other-type")),
        pytest.param(
            "dead",
            "",
            {"RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'},
            "The dead-letter queue's RedriveAllowPolicy does not allow this source queue.",
            marks=pytest.mark.spec("redrive.denied", "redrive-allow.none"),
        ),
    ],
)
async def test_targets_refused(
    sqs: Sqs, wire: Wire, target: str, suffix: str, attributes: dict[str, str], reason: str
) -> None:
    if target != "absent":
        await sqs.queue(target, **attributes)
    text = policy_of(target)
    await refused_for(sqs, wire, invalid_policy(text, reason), suffix, RedrivePolicy=text)


@pytest.mark.spec("redrive.elsewhere")
@pytest.mark.parametrize(
    ("arn", "reason"),
    [
        ("arn:aws:sqs:us-east-1:111111111111:dead", "Dead-letter target owner should be same as the source."),
        ("arn:aws:sqs:eu-west-1:000000000000:dead", "Dead-letter target must be in same region as the source."),
    ],
)
async def test_targets_elsewhere_refused(sqs: Sqs, wire: Wire, arn: str, reason: str) -> None:
    text = f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}'
    await refused_for(sqs, wire, invalid_policy(text, reason), RedrivePolicy=text)


@pytest.mark.spec("redrive.normalised", "redrive.count-as-text")
@pytest.mark.parametrize("count", ["1", "1000", '"1"', '"1000"'])
async def test_returned_in_aws_order(sqs: Sqs, count: str) -> None:
    await sqs.queue("dead")
    text = f'{{ "more": [], "maxReceiveCount": {count}, "deadLetterTargetArn": "{ARNS}dead" }}'
    url = await sqs.queue(RedrivePolicy=text)
    normalised = {"RedrivePolicy": policy_of("dead", count.strip('"'))}
    assert await sqs.attributes(url, "RedrivePolicy") == normalised
    await set_policy(sqs, url, text)
    assert await sqs.attributes(url, "RedrivePolicy") == normalised


@pytest.mark.spec("redrive.removed")
async def test_removed(sqs: Sqs) -> None:
    dead = await sqs.queue("dead")
    url = await sqs.queue(RedrivePolicy=policy_of("dead"))
    await sqs.send(url)
    assert len(await sqs.receive(url, VisibilityTimeout=0)) == 1
    await set_policy(sqs, url, "")
    assert "RedrivePolicy" not in await sqs.attributes(url)
    assert len(await sqs.receive(url)) == 1
    assert await sqs.counts(dead) == (0, 0, 0)


# -- who may name a queue ---------------------------------------------------------------------------------------------


@pytest.mark.spec("redrive-allow.all")
@pytest.mark.parametrize("attributes", [{}, {"RedriveAllowPolicy": '{"redrivePermission":"allowAll"}'}])
async def test_every_queue_may(sqs: Sqs, attributes: dict[str, str]) -> None:
    await sqs.queue("dead", **attributes)
    assert await sqs.queue(RedrivePolicy=policy_of("dead"))


@pytest.mark.spec("redrive-allow.by-queue")
async def test_named_queues_may(sqs: Sqs) -> None:
    allow = f'{{"redrivePermission":"byQueue","sourceQueueArns":["{ARNS}friend"]}}'
    await sqs.queue("dead", RedriveAllowPolicy=allow)
    assert await sqs.queue("friend", RedrivePolicy=policy_of("dead"))
    assert (await refused(sqs.queue("stranger", RedrivePolicy=policy_of("dead"))))[0] == "InvalidParameterValue"


@pytest.mark.spec("redrive-allow.only-when-set")
async def test_an_existing_policy_is_kept(sqs: Sqs) -> None:
    dead = await sqs.queue("dead")
    source = await sqs.queue("source", RedrivePolicy=policy_of("dead"))
    await sqs("SetQueueAttributes", QueueUrl=dead, Attributes={"RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'})
    await sqs.send(source, "poison")
    assert await sqs.bodies(source, VisibilityTimeout=0) == ["poison"]
    assert await sqs.receive(source) == []
    assert await sqs.bodies(dead) == ["poison"]
    await sqs("SetQueueAttributes", QueueUrl=source, Attributes={"VisibilityTimeout": "5"})
    assert (await refused(set_policy(sqs, source, policy_of("dead", 2))))[0] == "InvalidParameterValue"


NEEDED = "When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values."
NOT_BY_QUEUE = "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."
ARN_TEXT = f'"{ARNS}a"'


@pytest.mark.parametrize(
    ("permission", "arns", "reason"),
    [
        pytest.param("byQueue", "", NEEDED, marks=pytest.mark.spec("redrive-allow.arns-needed")),
        pytest.param("allowAll", ARN_TEXT, NOT_BY_QUEUE, marks=pytest.mark.spec("redrive-allow.arns-only-by-queue")),
        pytest.param("denyAll", ARN_TEXT, NOT_BY_QUEUE, marks=pytest.mark.spec("redrive-allow.arns-only-by-queue")),
        pytest.param(
            "byQueue",
            ",".join([ARN_TEXT] * 11),
            "The maximum number of source queue ARNs you can specify is 10.",
            marks=pytest.mark.spec("redrive-allow.ten-arns"),
        ),
        pytest.param(
            "byQueue",
            f'{ARN_TEXT},"arn:aws:sqs:mars-1:000000000000:q"',
            "All source queue ARNs must be in the same region as the current SQS queue.",
            marks=pytest.mark.spec("redrive-allow.elsewhere"),
        ),
    ],
)
async def test_allow_policies_refused(sqs: Sqs, wire: Wire, permission: str, arns: str, reason: str) -> None:
    text = f'{{"redrivePermission":"{permission}","sourceQueueArns":[{arns}]}}'
    refusal = invalid("RedriveAllowPolicy", text, f"Amazon SQS can't create the redrive allow policy. {reason}")
    await refused_for(sqs, wire, refusal, RedriveAllowPolicy=text)


@pytest.mark.spec("redrive-allow.ten-arns")
async def test_ten_queues_may_be_named(sqs: Sqs) -> None:
    text = f'{{"redrivePermission":"byQueue","sourceQueueArns":[{",".join([ARN_TEXT] * 10)}]}}'
    url = await sqs.queue(RedriveAllowPolicy=text)
    assert await sqs.attributes(url, "RedriveAllowPolicy") == {"RedriveAllowPolicy": text}
