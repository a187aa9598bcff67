"""Facts that botocore's service models lack: versions, namespaces, SQS's Query names and the order of elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ServiceName = Literal["sqs", "sns", "sts"]

API_VERSIONS: Mapping[ServiceName, str] = {"sqs": "2012-11-05", "sns": "2010-03-31", "sts": "2011-06-15"}

XML_NAMESPACES: Mapping[ServiceName, str] = {
    "sqs": "http://queue.amazonaws.com/doc/2012-11-05/",
    "sns": "http://sns.amazonaws.com/doc/2010-03-31/",
    "sts": "https://sts.amazonaws.com/doc/2011-06-15/",
}

XML_DECLARATIONS: Mapping[ServiceName, str] = {"sqs": '<?xml version="1.0"?>', "sns": "", "sts": ""}

# SQS's model became a JSON model in 2023 and lost its Query names. Every list and map of SQS is flattened, and its
# Query name depends only on its shape.
SQS_QUERY_NAMES: Mapping[str, str] = {
    "AWSAccountIdList": "AWSAccountId",
    "ActionNameList": "ActionName",
    "AttributeNameList": "AttributeName",
    "BatchResultErrorEntryList": "BatchResultErrorEntry",
    "BinaryList": "BinaryListValue",
    "ChangeMessageVisibilityBatchRequestEntryList": "ChangeMessageVisibilityBatchRequestEntry",
    "ChangeMessageVisibilityBatchResultEntryList": "ChangeMessageVisibilityBatchResultEntry",
    "DeleteMessageBatchRequestEntryList": "DeleteMessageBatchRequestEntry",
    "DeleteMessageBatchResultEntryList": "DeleteMessageBatchResultEntry",
    "ListMessageMoveTasksResultEntryList": "ListMessageMoveTasksResultEntry",
    "MessageAttributeNameList": "MessageAttributeName",
    "MessageBodyAttributeMap": "MessageAttribute",
    "MessageBodySystemAttributeMap": "MessageSystemAttribute",
    "MessageList": "Message",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "MessageSystemAttributeMap": "Attribute",
    "QueueAttributeMap": "Attribute",
    "QueueUrlList": "QueueUrl",
    "SendMessageBatchRequestEntryList": "SendMessageBatchRequestEntry",
    "SendMessageBatchResultEntryList": "SendMessageBatchResultEntry",
    "StringList": "StringListValue",
    "TagKeyList": "TagKey",
    "TagMap": "Tag",
}

SQS_ENTRY_NAMES: Mapping[str, tuple[str, str]] = {"TagMap": ("Key", "Value")}
SQS_ENTRY_NAME_DEFAULT = ("Name", "Value")

# a Query call that accepts JSON gets the names of SQS's first model, two of which differ from today's
SQS_QUERY_JSON_NAMES: Mapping[str, str] = {"Messages": "messages", "QueueUrls": "queueUrls"}

# members in the order recorded from AWS; members not listed follow in the model's order
ELEMENT_ORDER: Mapping[ServiceName, Mapping[str, tuple[str, ...]]] = {
    "sqs": {},
    "sns": {
        "BatchResultErrorEntry": ("Code", "SenderFault", "Id", "Message"),
        "PublishBatchResponse": ("Failed", "Successful"),
        "PublishBatchResultEntry": ("MessageId", "Id"),
        "Subscription": ("Owner", "Protocol", "Endpoint", "SubscriptionArn", "TopicArn"),
        "Tag": ("Value", "Key"),
    },
    "sts": {"GetCallerIdentityResponse": ("Arn", "UserId", "Account")},
}
