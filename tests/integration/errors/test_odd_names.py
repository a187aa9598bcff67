"""Names that are empty, overlong or not names at all are refused with 400, in both forms of the service alike."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cns_common.aws.protocol.names import ServiceName
from cns_common.cassandra.connection import CassandraAddress
from lab.harness.keyspace import emptied
from tests.integration.errors.api_calls import (
    URL,
    MemberPath,
    Members,
    places_of_texts,
    prepared_calls,
    sns_calls,
    sqs_calls,
    text_at,
    with_text,
)
from tests.integration.errors.api_forms import ACCOUNT, PROTOCOLS, REGION, FormOfApi, cluster_api, embedded_api
from tests.marks import examples

LONG = "a" * 70_000
"""Above what a key of Cassandra and a length of two bytes can be."""
TOPIC_OF_LONG_NAME = f"arn:aws:sns:{REGION}:{ACCOUNT}:{LONG}"


class Forms(NamedTuple):
    """Both forms of the service, with the same things in each."""

    embedded: FormOfApi
    cluster: FormOfApi
    calls: tuple[dict[ServiceName, dict[str, Members]], ...]

    async def refuse(self, service: ServiceName, protocol: str, action: str, **members: str) -> set[tuple[int, str]]:
        """Status and code of the answers of both."""
        apis = (self.embedded, self.cluster)
        return {(await api(service, protocol, action, **members))[:2] for api in apis}


@pytest.fixture
async def forms(tmp_path: Path, cassandra_address: CassandraAddress) -> AsyncIterator[Forms]:
    async with AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(embedded_api(tmp_path / "embedded"))
        await stack.enter_async_context(emptied(cassandra_address))
        cluster = await stack.enter_async_context(cluster_api(tmp_path / "cluster", cassandra_address))
        yield Forms(embedded, cluster, (await prepared_calls(embedded), await prepared_calls(cluster)))


async def test_no_topic_has_such_an_arn(forms: Forms) -> None:
    for arn in ("", LONG, TOPIC_OF_LONG_NAME, f"arn:aws:sns:{REGION}:{ACCOUNT}:"):
        for action in ("GetTopicAttributes", "DeleteTopic", "ListSubscriptionsByTopic"):
            assert await forms.refuse("sns", "query", action, TopicArn=arn) == {(400, "InvalidParameter")}
        for target in ("TopicArn", "TargetArn"):
            published = {target: arn, "Message": "m"}
            assert await forms.refuse("sns", "query", "Publish", **published) == {(400, "InvalidParameter")}
    endpoint = f"arn:aws:sns:{REGION}:{ACCOUNT}:endpoint/GCM/a/{LONG}"
    assert await forms.refuse("sns", "query", "Publish", TargetArn=endpoint, Message="m") == {(400, "InvalidParameter")}


async def test_no_queue_has_such_a_name(forms: Forms) -> None:
    no_queue = {(400, "AWS.SimpleQueueService.NonExistentQueue")}
    for protocol in ("json", "query"):
        assert await forms.refuse("sqs", protocol, "GetQueueUrl", QueueName=LONG) == no_queue
        assert await forms.refuse("sqs", protocol, "GetQueueUrl", QueueName="a" * 81) == no_queue
        assert await forms.refuse("sqs", protocol, "DeleteQueue", QueueUrl=URL + LONG) == no_queue
        assert await forms.refuse("sqs", protocol, "GetQueueUrl", QueueName="") == {(400, "InvalidParameterValue")}


async def test_a_page_after_an_odd_text(forms: Forms) -> None:
    """The token of a page may have been made by anybody."""
    for text in ("", "\x00", "z", "é"):
        token = base64.b64encode(text.encode()).decode()
        assert await forms.refuse("sns", "query", "ListSubscriptions", NextToken=token) == {(200, "")}


# -- every text of every operation ------------------------------------------------------------------------------------

ODD_TEXTS: tuple[Callable[[str], str], ...] = (
    lambda _: "",
    lambda _: LONG,
    lambda text: text + LONG,
    lambda text: text + "é" * 40_000,
    lambda text: text.replace("/", "/" + LONG, 3) if "/" in text else LONG + text,  # some receipt handles have none
    lambda text: ":".join([*text.split(":")[:3], LONG, *text.split(":")[4:]]),
    lambda text: ":".join([*text.split(":")[:4], "", *text.split(":")[5:]]),
    lambda text: base64.b64encode((text + LONG).encode()).decode(),
    lambda _: base64.b64encode(b"\x00").decode(),
    lambda _: base64.b64encode(b'{"taskId":"","sourceArn":"arn:aws:sqs:us-east-1:000000000000:dead"}').decode(),
    lambda text: f"{text[:-1]}\x00",
)


class OddCall(NamedTuple):
    service: ServiceName
    protocol: str
    action: str
    place: MemberPath
    change: Callable[[str], str]


def _places() -> list[tuple[ServiceName, str, str, MemberPath]]:
    calls: dict[ServiceName, dict[str, Members]] = {"sqs": sqs_calls("h", "t"), "sns": sns_calls("s", "e")}
    return [
        (service, protocol, action, place)
        for service, protocol in PROTOCOLS
        for action, members in calls[service].items()
        for place in places_of_texts(members)
    ]


CHANGES = st.one_of(
    st.sampled_from(ODD_TEXTS),
    st.text(max_size=100).map(lambda text: lambda _: text),
    st.text(max_size=100).map(lambda text: lambda known: known + text),
)


async def _check(forms: Forms, call: OddCall) -> None:
    answers = []
    for api, calls in zip((forms.embedded, forms.cluster), forms.calls, strict=True):
        members = calls[call.service][call.action]
        odd = with_text(members, call.place, call.change(text_at(members, call.place)))
        answers.append((await api(call.service, call.protocol, call.action, **odd))[:2])
    assert answers[0] == answers[1], call
    assert answers[0][0] < 500, (call, answers)


@settings(
    max_examples=examples(30), database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)
@given(st.sampled_from(_places()), CHANGES)
async def test_no_text_in_a_call_is_the_fault_of_the_service(
    forms: Forms, place: tuple[ServiceName, str, str, MemberPath], change: Callable[[str], str]
) -> None:
    await _check(forms, OddCall(*place, change))


@pytest.mark.extended
async def test_no_odd_text_in_any_place_is_the_fault_of_the_service(forms: Forms) -> None:
    for place in _places():
        for change in ODD_TEXTS:
            await _check(forms, OddCall(*place, change))
