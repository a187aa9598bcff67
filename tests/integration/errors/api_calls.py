"""A valid call of every operation on things that exist, and the places of their texts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from cns_common.aws.protocol.names import ServiceName
from tests.integration.errors.api_forms import ACCOUNT, REGION, FormOfApi, json_of

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
APPLICATION = f"arn:aws:sns:{REGION}:{ACCOUNT}:app/GCM/a"
QUEUE_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
DEAD_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
URL = f"http://127.0.0.1:6059/{ACCOUNT}/q"
PHONE = "+12025550123"
ATTRIBUTE = {"DataType": "String", "StringValue": "v"}
ENTRY_ID = "one"

Members = dict[str, Any]
MemberPath = tuple[str | int, ...]


async def prepared_calls(api: FormOfApi) -> dict[ServiceName, dict[str, Members]]:
    """Make the things that the calls name. Returns the members of a call of each operation, by service and action."""
    await api("sqs", "json", "CreateQueue", QueueName="dead")
    redrive = f'{{"deadLetterTargetArn":"{DEAD_ARN}","maxReceiveCount":"3"}}'
    await api("sqs", "json", "CreateQueue", QueueName="q", Attributes={"RedrivePolicy": redrive})
    await api("sqs", "json", "SendMessage", QueueUrl=URL, MessageBody="m")
    received = json_of(await api("sqs", "json", "ReceiveMessage", QueueUrl=URL))
    await api("sns", "query", "CreateTopic", Name="t")
    subscribed = await api("sns", "query", "Subscribe", TopicArn=TOPIC, Protocol="sqs", Endpoint=QUEUE_ARN)
    await api("sns", "query", "CreatePlatformApplication", **_application("a"))
    endpoint = await api(
        "sns", "query", "CreatePlatformEndpoint", PlatformApplicationArn=APPLICATION, Token="token-of-a-device"
    )
    await api("sqs", "json", "StartMessageMoveTask", SourceArn=DEAD_ARN)
    listed = json_of(await api("sqs", "json", "ListMessageMoveTasks", SourceArn=DEAD_ARN))
    return {
        "sqs": sqs_calls(received["Messages"][0]["ReceiptHandle"], listed["Results"][0].get("TaskHandle", "")),
        "sns": sns_calls(_text(subscribed.body, "SubscriptionArn"), _text(endpoint.body, "EndpointArn")),
    }


def places_of_texts(value: Any, path: MemberPath = ()) -> Iterator[MemberPath]:
    """The paths of all strings, and of the names in maps of names, in a call's members."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from places_of_texts(member, (*path, name))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for number, item in enumerate(value):
            yield from places_of_texts(item, (*path, number))


def with_text(members: Members, path: MemberPath, text: str) -> Members:
    """The members with another string at `path`."""
    changed = copy.deepcopy(members)
    part: Any = changed
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = text
    return changed


def text_at(members: Members, path: MemberPath) -> str:
    part: Any = members
    for step in path:
        part = part[step]
    return str(part)


def _text(body: bytes, name: str) -> str:
    return next(element.text or "" for element in ElementTree.fromstring(body).iter() if element.tag.endswith(name))


def _application(name: str) -> Members:
    return {"Name": name, "Platform": "GCM", "Attributes": {"PlatformCredential": "c"}}


def sqs_calls(handle: str, task: str) -> dict[str, Members]:
    visible = {"Id": ENTRY_ID, "ReceiptHandle": handle, "VisibilityTimeout": 30}
    message = {
        "MessageBody": "m",
        "MessageAttributes": {"a": ATTRIBUTE},
        "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-2"}},
    }
    return {
        "AddPermission": {"QueueUrl": URL, "Label": "l", "AWSAccountIds": [ACCOUNT], "Actions": ["SendMessage"]},
        "CancelMessageMoveTask": {"TaskHandle": task},
        "ChangeMessageVisibility": {"QueueUrl": URL, "ReceiptHandle": handle, "VisibilityTimeout": 30},
        "ChangeMessageVisibilityBatch": {"QueueUrl": URL, "Entries": [visible]},
        "CreateQueue": {
            "QueueName": "q",
            "Attributes": {"DelaySeconds": "0", "RedrivePolicy": "", "Policy": "", "KmsMasterKeyId": ""},
            "tags": {"k": "v"},
        },
        "DeleteMessage": {"QueueUrl": URL, "ReceiptHandle": handle},
        "DeleteMessageBatch": {"QueueUrl": URL, "Entries": [{"Id": ENTRY_ID, "ReceiptHandle": handle}]},
        "DeleteQueue": {"QueueUrl": URL.replace("/q", "/none")},
        "GetQueueAttributes": {"QueueUrl": URL, "AttributeNames": ["All"]},
        "GetQueueUrl": {"QueueName": "q", "QueueOwnerAWSAccountId": ACCOUNT},
        "ListDeadLetterSourceQueues": {"QueueUrl": URL, "NextToken": "cQ=="},
        "ListMessageMoveTasks": {"SourceArn": DEAD_ARN},
        "ListQueueTags": {"QueueUrl": URL},
        "ListQueues": {"QueueNamePrefix": "q", "NextToken": "cQ=="},
        "PurgeQueue": {"QueueUrl": URL},
        "ReceiveMessage": {"QueueUrl": URL, "AttributeNames": ["All"], "MessageAttributeNames": ["a"]},
        "RemovePermission": {"QueueUrl": URL, "Label": "l"},
        "SendMessage": {"QueueUrl": URL, **message, "MessageGroupId": "g"},
        "SendMessageBatch": {"QueueUrl": URL, "Entries": [{"Id": ENTRY_ID, **message}]},
        "SetQueueAttributes": {"QueueUrl": URL, "Attributes": {"DelaySeconds": "0", "RedrivePolicy": ""}},
        "StartMessageMoveTask": {"SourceArn": DEAD_ARN, "DestinationArn": QUEUE_ARN},
        "TagQueue": {"QueueUrl": URL, "Tags": {"k": "v"}},
        "UntagQueue": {"QueueUrl": URL, "TagKeys": ["k"]},
    }


def sns_calls(subscription: str, endpoint: str) -> dict[str, Members]:
    message = {
        "Message": "m",
        "Subject": "s",
        "MessageAttributes": {"a": ATTRIBUTE},
    }
    return {
        "AddPermission": {"TopicArn": TOPIC, "Label": "l", "AWSAccountId": [ACCOUNT], "ActionName": ["Publish"]},
        "CheckIfPhoneNumberIsOptedOut": {"phoneNumber": PHONE},
        "ConfirmSubscription": {"TopicArn": TOPIC, "Token": "ab", "AuthenticateOnUnsubscribe": "true"},
        "CreatePlatformApplication": _application("b"),
        "CreatePlatformEndpoint": {
            "PlatformApplicationArn": APPLICATION,
            "Token": "token-of-another",
            "CustomUserData": "u",
            "Attributes": {"Enabled": "true"},
        },
        "CreateSMSSandboxPhoneNumber": {"PhoneNumber": PHONE, "LanguageCode": "en-US"},
        "CreateTopic": {"Name": "t", "Attributes": {"DisplayName": ""}, "Tags": []},
        "DeleteEndpoint": {"EndpointArn": endpoint[:-1] + "0"},
        "DeletePlatformApplication": {"PlatformApplicationArn": APPLICATION + "none"},
        "DeleteSMSSandboxPhoneNumber": {"PhoneNumber": PHONE},
        "DeleteTopic": {"TopicArn": TOPIC + "none"},
        "GetDataProtectionPolicy": {"ResourceArn": TOPIC},
        "GetEndpointAttributes": {"EndpointArn": endpoint},
        "GetPlatformApplicationAttributes": {"PlatformApplicationArn": APPLICATION},
        "GetSMSAttributes": {"attributes": ["DefaultSMSType"]},
        "GetSMSSandboxAccountStatus": {},
        "GetSubscriptionAttributes": {"SubscriptionArn": subscription},
        "GetTopicAttributes": {"TopicArn": TOPIC},
        "ListEndpointsByPlatformApplication": {"PlatformApplicationArn": APPLICATION, "NextToken": "YQ=="},
        "ListOriginationNumbers": {"NextToken": "YQ=="},
        "ListPhoneNumbersOptedOut": {"nextToken": "YQ=="},
        "ListPlatformApplications": {"NextToken": "YQ=="},
        "ListSMSSandboxPhoneNumbers": {"NextToken": "YQ=="},
        "ListSubscriptions": {"NextToken": "YQ=="},
        "ListSubscriptionsByTopic": {"TopicArn": TOPIC, "NextToken": "YQ=="},
        "ListTagsForResource": {"ResourceArn": TOPIC},
        "ListTopics": {"NextToken": "YQ=="},
        "OptInPhoneNumber": {"phoneNumber": PHONE},
        "Publish": {"TopicArn": TOPIC, **message, "MessageGroupId": "g"},
        "PublishBatch": {"TopicArn": TOPIC, "PublishBatchRequestEntries": [{"Id": ENTRY_ID, **message}]},
        "PutDataProtectionPolicy": {"ResourceArn": TOPIC, "DataProtectionPolicy": ""},
        "RemovePermission": {"TopicArn": TOPIC, "Label": "l"},
        "SetEndpointAttributes": {"EndpointArn": endpoint, "Attributes": {"CustomUserData": "u"}},
        "SetPlatformApplicationAttributes": {
            "PlatformApplicationArn": APPLICATION,
            "Attributes": {"PlatformCredential": "c", "EventEndpointCreated": ""},
        },
        "SetSMSAttributes": {"attributes": {"DefaultSMSType": "Promotional", "DefaultSenderID": "s"}},
        "SetSubscriptionAttributes": {
            "SubscriptionArn": subscription,
            "AttributeName": "RawMessageDelivery",
            "AttributeValue": "true",
        },
        "SetTopicAttributes": {"TopicArn": TOPIC, "AttributeName": "DisplayName", "AttributeValue": "d"},
        "Subscribe": {"TopicArn": TOPIC, "Protocol": "sqs", "Endpoint": QUEUE_ARN, "Attributes": {"FilterPolicy": ""}},
        "TagResource": {"ResourceArn": TOPIC, "Tags": [{"Key": "k", "Value": "v"}]},
        "Unsubscribe": {"SubscriptionArn": subscription[:-1] + "0"},
        "UntagResource": {"ResourceArn": TOPIC, "TagKeys": ["k"]},
        "VerifySMSSandboxPhoneNumber": {"PhoneNumber": PHONE, "OneTimePassword": "123456"},
    }
