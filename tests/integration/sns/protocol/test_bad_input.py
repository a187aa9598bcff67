"""To any input the API returns a result that fits the model, or an error that the model has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cns.api import operations
from cns.limits import Quotas
from cns_common.aws.protocol.faults import find_fault
from cns_common.clock import Clock
from cns_common.errors import RequestError
from tests.integration.sns.cns_support import ACCOUNT, REGION, call, open_rig, queue_arn
from tests.marks import examples

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
SUBSCRIPTION = f"{TOPIC}:6ab180b4-f6c7-4ab5-8747-757d1d466e12"
TOPIC_ATTRIBUTES = ("DisplayName", "Policy", "DeliveryPolicy", "KmsMasterKeyId", "HTTPSuccessFeedbackRoleArn")
SUBSCRIPTION_ATTRIBUTES = ("RawMessageDelivery", "RedrivePolicy", "DeliveryPolicy", "FilterPolicy")
ENTRY = {"Id": "a", "Message": "m"}
APPLICATION = f"arn:aws:sns:{REGION}:{ACCOUNT}:app/GCM/a"
MOBILE_ENDPOINT = f"arn:aws:sns:{REGION}:{ACCOUNT}:endpoint/GCM/a/6ab180b4-f6c7-4ab5-8747-757d1d466e12"
PHONE = "+12025550123"

GOOD: Mapping[str, dict[str, Any]] = {
    "AddPermission": {"TopicArn": TOPIC, "Label": "l", "AWSAccountId": [ACCOUNT], "ActionName": ["Publish"]},
    "CheckIfPhoneNumberIsOptedOut": {"phoneNumber": PHONE},
    "ConfirmSubscription": {"TopicArn": TOPIC, "Token": "ab", "AuthenticateOnUnsubscribe": "true"},
    "CreatePlatformApplication": {"Name": "a", "Platform": "GCM", "Attributes": {"PlatformCredential": "c"}},
    "CreatePlatformEndpoint": {
        "PlatformApplicationArn": APPLICATION,
        "Token": "t",
        "CustomUserData": "u",
        "Attributes": {"Enabled": "true"},
    },
    "CreateSMSSandboxPhoneNumber": {"PhoneNumber": PHONE, "LanguageCode": "en-US"},
    "CreateTopic": {
        "Name": "t",
        "Attributes": dict.fromkeys(TOPIC_ATTRIBUTES, ""),
        "Tags": [{"Key": "k", "Value": "v"}],
    },
    "DeleteEndpoint": {"EndpointArn": MOBILE_ENDPOINT},
    "DeletePlatformApplication": {"PlatformApplicationArn": APPLICATION},
    "DeleteSMSSandboxPhoneNumber": {"PhoneNumber": PHONE},
    "DeleteTopic": {"TopicArn": TOPIC},
    "GetDataProtectionPolicy": {"ResourceArn": TOPIC},
    "GetEndpointAttributes": {"EndpointArn": MOBILE_ENDPOINT},
    "GetPlatformApplicationAttributes": {"PlatformApplicationArn": APPLICATION},
    "GetSMSAttributes": {"attributes": ["DefaultSMSType"]},
    "GetSMSSandboxAccountStatus": {},
    "GetSubscriptionAttributes": {"SubscriptionArn": SUBSCRIPTION},
    "GetTopicAttributes": {"TopicArn": TOPIC},
    "ListEndpointsByPlatformApplication": {"PlatformApplicationArn": APPLICATION, "NextToken": ""},
    "ListOriginationNumbers": {"NextToken": ""},
    "ListPhoneNumbersOptedOut": {"nextToken": ""},
    "ListPlatformApplications": {"NextToken": ""},
    "ListSMSSandboxPhoneNumbers": {"NextToken": ""},
    "ListSubscriptions": {"NextToken": ""},
    "ListSubscriptionsByTopic": {"TopicArn": TOPIC, "NextToken": ""},
    "ListTagsForResource": {"ResourceArn": TOPIC},
    "ListTopics": {"NextToken": ""},
    "OptInPhoneNumber": {"phoneNumber": PHONE},
    "Publish": {
        "TopicArn": TOPIC,
        "Message": "m",
        "Subject": "s",
        "MessageStructure": "json",
        "MessageGroupId": "g",
        "MessageDeduplicationId": "d",
        "MessageAttributes": {"a": {"DataType": "String", "StringValue": "v"}},
    },
    "PublishBatch": {
        "TopicArn": TOPIC,
        "PublishBatchRequestEntries": [ENTRY | {"Subject": "s", "MessageStructure": "json"}],
    },
    "PutDataProtectionPolicy": {"ResourceArn": TOPIC, "DataProtectionPolicy": ""},
    "RemovePermission": {"TopicArn": TOPIC, "Label": "l"},
    "SetEndpointAttributes": {"EndpointArn": MOBILE_ENDPOINT, "Attributes": {"Token": "t", "CustomUserData": "u"}},
    "SetPlatformApplicationAttributes": {
        "PlatformApplicationArn": APPLICATION,
        "Attributes": {"EventEndpointCreated": TOPIC, "SuccessFeedbackSampleRate": "1"},
    },
    "SetSMSAttributes": {"attributes": {"DefaultSMSType": "Transactional", "DefaultSenderID": "a"}},
    "SetSubscriptionAttributes": {
        "SubscriptionArn": SUBSCRIPTION,
        "AttributeName": "RawMessageDelivery",
        "AttributeValue": "true",
    },
    "SetTopicAttributes": {"TopicArn": TOPIC, "AttributeName": "DisplayName", "AttributeValue": "d"},
    "Subscribe": {
        "TopicArn": TOPIC,
        "Protocol": "sqs",
        "Endpoint": queue_arn(ACCOUNT),
        "Attributes": dict.fromkeys(SUBSCRIPTION_ATTRIBUTES, "true"),
    },
    "TagResource": {"ResourceArn": TOPIC, "Tags": [{"Key": "k", "Value": "v"}]},
    "UntagResource": {"ResourceArn": TOPIC, "TagKeys": ["k"]},
    "Unsubscribe": {"SubscriptionArn": SUBSCRIPTION},
    "VerifySMSSandboxPhoneNumber": {"PhoneNumber": PHONE, "OneTimePassword": "123456"},
}

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=20),  # with lone surrogates, which stand for raw bytes
    st.sampled_from(
        [
            "",
            TOPIC,
            f"{TOPIC}\udc80",
            f"{SUBSCRIPTION}",
            "{}",
            "[]",
            "null",
            '{"default":"\\ud800"}',
            "[" * 2_000,
            "true",
        ]
    ),
    st.sampled_from(['{"Statement":[]}', '{"http":{}}', '{"deadLetterTargetArn":"x"}', "a" * 3_000, "http://[", "-1"]),
)
"""Texts as the Query protocol may pass them on."""


def with_text(value: Any, text: str, index: int) -> Any:
    """`value` with one of its texts replaced, the one at `index` modulo their number."""
    texts_seen: list[None] = []

    def replace_text(part: Any, target: int) -> Any:
        if isinstance(part, dict):
            return {key: replace_text(inner, target) for key, inner in part.items()}
        if isinstance(part, list):
            return [replace_text(inner, target) for inner in part]
        texts_seen.append(None)
        return text if len(texts_seen) - 1 == target else part

    replace_text(value, -1)
    count = len(texts_seen)
    texts_seen.clear()
    return replace_text(value, index % count) if count else value


@pytest.mark.parametrize("action", sorted(GOOD))
async def test_bad_input_is_refused(action: str, tmp_path: Path) -> None:
    async with open_rig(tmp_path, Clock(), Quotas()) as rig:
        await rig.topic()
        arn = await rig.queue_subscription(TOPIC)
        template = with_subscription(GOOD[action], arn)
        for index, text in sample_pairs():
            try:
                await rig.by(call(ACCOUNT), action, **with_text(template, text, index))
            except RequestError as refusal:
                assert find_fault("sns", refusal.code) is not None, refusal
            await rig.by(call(ACCOUNT), "CreateTopic", Name="t")


def with_subscription(params: dict[str, Any], arn: str) -> dict[str, Any]:
    return {name: arn if value == SUBSCRIPTION else value for name, value in params.items()}


def sample_pairs() -> list[tuple[int, str]]:
    """Sixty pairs of index and text, the same in each run."""
    pairs: list[tuple[int, str]] = []

    @settings(max_examples=examples(60), database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 20), TEXTS)
    def add(index: int, text: str) -> None:
        pairs.append((index, text))

    add()
    return pairs


async def test_every_action_is_tried(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Clock(), Quotas()) as rig:
        assert operations(rig.service).keys() == GOOD.keys()
