"""FilterPolicy and FilterPolicyScope through the API: accepted and returned values, and who gets a message."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cns.delivery.jobs import EndpointJob
from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, Rig, invalid, open_rig, queue_arn, unsigned

spec = pytest.mark.spec
RED = '{"colour":["red"]}'
NESTED = '{"car":{"colour":["red"]}}'
NOT_NESTED = "Filter policy scope MessageAttributes does not support nested filter policy"
EXISTS = "Attributes Reason: Subscription already exists with different attributes"
BODY = {"FilterPolicyScope": "MessageBody"}


def string(text: str, data_type: str = "String") -> dict[str, str]:
    return {"DataType": data_type, "StringValue": text}


async def publish(rig: Rig, topic: str, message: str = "m", **attributes: dict[str, str]) -> list[str]:
    """Publish a message. Returns the subscriptions that get it."""
    await rig("Publish", TopicArn=topic, Message=message, MessageAttributes=attributes)
    return take_receivers(rig)


def take_receivers(rig: Rig) -> list[str]:
    """The subscriptions that get a message published since the last call."""
    taken = rig.queue.take()
    assert all(isinstance(job, EndpointJob) for job in taken)
    return [arn for job in taken if isinstance(job, EndpointJob) for arn in job.subscriptions]


async def shown(rig: Rig, arn: str) -> tuple[str | None, str | None]:
    attributes = await rig.attributes(arn)
    return attributes.get("FilterPolicy"), attributes.get("FilterPolicyScope")


# -- the attributes ---------------------------------------------------------------------------------------------------


@spec("filter.form", "filter.compact", "filter.scope-default", "filter.scope-shown")
async def test_a_policy_is_stored_compactly_and_shown_with_its_scope(rig: Rig, topic: str) -> None:
    arn = await rig.queue_subscription(topic, FilterPolicy='{ "colour" : [ "red" , 1.50 ] }')
    assert await shown(rig, arn) == ('{"colour":["red",1.50]}', "MessageAttributes")


@spec("filter.removed", "filter.scope-shown")
@pytest.mark.parametrize("nothing", ["", "{}", " {\n} "])
async def test_a_policy_is_removed_and_its_scope_hidden(rig: Rig, topic: str, nothing: str) -> None:
    arn = await rig.queue_subscription(topic, FilterPolicy=NESTED, **BODY)
    assert await shown(rig, arn) == (NESTED, "MessageBody")
    await rig.set(arn, "FilterPolicy", nothing)
    assert await shown(rig, arn) == (None, None)
    assert await publish(rig, topic) == [arn]
    assert await shown(rig, await rig.queue_subscription(topic, "r", FilterPolicy=nothing)) == (None, None)


@spec("filter.scope-shown")
async def test_a_scope_alone_is_stored_and_not_returned(rig: Rig) -> None:
    arn = await rig.queue_subscription(await rig.topic(), **BODY)
    assert await shown(rig, arn) == (None, None)
    await rig.set(arn, "FilterPolicy", NESTED)
    assert await shown(rig, arn) == (NESTED, "MessageBody")


@spec("filter-attribute.nested", "filter.scope-change")
async def test_the_policy_must_be_valid_for_its_scope(rig: Rig, topic: str) -> None:
    refusal = await rig.refused_subscribe(topic, queue_arn(ACCOUNT), FilterPolicy=NESTED)
    assert refusal == invalid(f"Attributes Reason: {NOT_NESTED}")
    for attributes in ({"FilterPolicy": NESTED, **BODY}, {**BODY, "FilterPolicy": NESTED}):  # attributes in any order
        arn = await rig.queue_subscription(topic, **attributes)
    assert await rig.refused_set(arn, "FilterPolicyScope", "MessageAttributes") == invalid(NOT_NESTED)
    await rig.set(arn, "FilterPolicy", RED)
    await rig.set(arn, "FilterPolicyScope", "MessageAttributes")
    assert await shown(rig, arn) == (RED, "MessageAttributes")


@spec("filter.same-when-subscribing-again")
async def test_subscribing_again_compares_what_is_sent_as_it_is_stored(rig: Rig, topic: str) -> None:
    arn = await rig.queue_subscription(topic, FilterPolicy=RED)
    assert await rig.queue_subscription(topic) == arn
    assert await rig.queue_subscription(topic, FilterPolicy='{"colour": ["red"]}') == arn
    assert await rig.queue_subscription(topic, FilterPolicyScope="MessageAttributes") == arn
    for other in ({"FilterPolicy": '{"colour":["blue"]}'}, {"FilterPolicy": "{}"}, BODY):
        assert await rig.refused_subscribe(topic, queue_arn(ACCOUNT), **other) == invalid(EXISTS)


# -- publishing -------------------------------------------------------------------------------------------------------


@spec("filter.none", "filter-body.no-attributes")
async def test_a_notification_goes_to_matching_subscriptions(rig: Rig, topic: str) -> None:
    everything = await rig.queue_subscription(topic, "a")
    red = await rig.queue_subscription(topic, "b", FilterPolicy=RED)
    body = await rig.queue_subscription(topic, "c", FilterPolicy=NESTED, **BODY)
    red_car = json.dumps({"car": {"colour": "red"}})
    assert await publish(rig, topic) == await publish(rig, topic, '{"colour":"red"}') == [everything]
    assert await publish(rig, topic, colour=string("red")) == sorted([everything, red])
    assert await publish(rig, topic, red_car, colour=string("blue")) == sorted([everything, body])
    assert await publish(rig, topic, red_car, colour=string("red")) == sorted([everything, red, body])
    samples = {sample.name: sample for sample in rig.service.matcher.counts.samples()}
    assert samples["cns_notifications_filtered_out_total"].value == 2 + 2 + 1 + 1 + 0
    assert 0 + 1 + 1 + 1 + 2 <= samples["cns_filter_evaluations_total"].value <= 2 * 5


@spec("filter.structure")
async def test_a_body_is_the_text_of_the_subscription_s_protocol(rig: Rig, topic: str) -> None:
    queue = await rig.queue_subscription(topic, FilterPolicy=NESTED, **BODY)
    web, _ = await rig.confirmed(topic, FilterPolicy=NESTED, **BODY)
    red, blue = (json.dumps({"car": {"colour": colour}}) for colour in ("red", "blue"))
    for texts, wanted in (
        ({"default": red}, [queue, web]),
        ({"default": red, "sqs": blue}, [web]),
        ({"default": blue, "sqs": red}, [queue]),
        ({"default": "no JSON", "https": red}, [web]),
        ({"default": blue, "http": red}, []),
    ):
        await rig("Publish", TopicArn=topic, Message=json.dumps(texts), MessageStructure="json")
        assert take_receivers(rig) == sorted(wanted)


@spec("filter.batch")
async def test_each_message_of_a_batch_has_its_own_matches(rig: Rig, topic: str) -> None:
    arns = {
        colour: await rig.queue_subscription(topic, colour, FilterPolicy=f'{{"c":["{colour}"]}}') for colour in "rg"
    }
    entries = [{"Id": colour, "Message": "m", "MessageAttributes": {"c": string(colour)}} for colour in ("r", "g", "b")]
    await rig("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    assert take_receivers(rig) == [arns["r"], arns["g"]]


@spec("filter.changed")
async def test_changes_take_effect_at_the_next_publish(rig: Rig, topic: str) -> None:
    async def reds() -> list[str]:
        return await publish(rig, topic, colour=string("red"))

    arn, _ = await rig.pending(topic, FilterPolicy=RED)
    assert await reds() == []
    arn, token = await rig.pending(topic, FilterPolicy=RED)
    await rig("ConfirmSubscription", TopicArn=topic, Token=token)
    assert (await reds(), await publish(rig, topic)) == ([arn], [])
    await rig.set(arn, "FilterPolicy", '{"colour":["blue"]}')
    assert await reds() == []
    await rig.set(arn, "FilterPolicy", "{}")
    assert (await reds(), await publish(rig, topic)) == ([arn], [arn])
    await rig.set(arn, "FilterPolicy", RED)
    assert (await reds(), await publish(rig, topic)) == ([arn], [])
    await rig("Unsubscribe", SubscriptionArn=arn)
    assert await reds() == []


async def test_a_restored_subscription_has_its_filter(rig: Rig, topic: str) -> None:
    arn, _ = await rig.confirmed(topic, FilterPolicy=RED)
    assert await publish(rig, topic, colour=string("red")) == [arn]
    await rig.by(unsigned(), "Unsubscribe", SubscriptionArn=arn)
    token = rig.confirmation().token
    assert await publish(rig, topic, colour=string("red")) == []
    await rig.confirm(topic, token)
    assert await publish(rig, topic, colour=string("red")) == [arn]
    assert await publish(rig, topic, colour=string("blue")) == []


async def test_many_filters_and_few_matches_make_one_endpoint_job(tmp_path: Path) -> None:
    quotas = Quotas(topic_filter_policies=10_000)
    async with open_rig(tmp_path, Clock(), quotas) as rig:
        topic = await rig.topic()
        arns = await asyncio.gather(
            *[rig.queue_subscription(topic, f"q{n}", FilterPolicy=f'{{"n":[{n % 100}]}}') for n in range(1_000)]
        )
        wanted = sorted(arns[7::100])
        assert await publish(rig, topic, n=string("7", "Number")) == wanted
        assert rig.service.dispatcher.outcomes == {"small": 1}


async def test_more_than_a_hundred_matches_make_a_publish_job(rig: Rig, topic: str) -> None:
    await asyncio.gather(*[rig.queue_subscription(topic, f"q{n}", FilterPolicy=RED) for n in range(101)])
    await rig("Publish", TopicArn=topic, Message="m", MessageAttributes={"colour": string("red")})
    assert rig.publish_job().topic == topic
    assert await publish(rig, topic, colour=string("blue")) == []
