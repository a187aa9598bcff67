"""Authorization levels: what a token or a signed URL allows. Each stands for some actions of SQS or SNS (seed 001)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LEVELS: Mapping[str, frozenset[str]] = {
    "ReadMessage": frozenset({"sqs:ReceiveMessage"}),
    "PutMessage": frozenset({"sqs:SendMessage"}),
    "UpdateMessage": frozenset({"sqs:ChangeMessageVisibility", "sqs:UpdateMessage"}),
    "AckMessage": frozenset({"sqs:DeleteMessage"}),
    "GetQueueInformation": frozenset(
        {"sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueues", "sqs:ListQueueTags"}
        | {"sqs:ListDeadLetterSourceQueues", "sqs:ListMessageMoveTasks"}
    ),
    "CreateQueue": frozenset({"sqs:CreateQueue", "sqs:SetQueueAttributes"}),
    "DeleteQueue": frozenset({"sqs:DeleteQueue", "sqs:PurgeQueue"}),
    "Redrive": frozenset({"sqs:StartMessageMoveTask", "sqs:CancelMessageMoveTask", "sqs:ListMessageMoveTasks"}),
    "PublishMessage": frozenset({"sns:Publish"}),
    "GetTopicInformation": frozenset(
        {"sns:GetTopicAttributes", "sns:ListTopics", "sns:ListSubscriptions", "sns:ListSubscriptionsByTopic"}
        | {"sns:GetSubscriptionAttributes"}
    ),
    "ManageTopic": frozenset(
        {"sns:CreateTopic", "sns:DeleteTopic", "sns:SetTopicAttributes", "sns:Subscribe", "sns:Unsubscribe"}
        | {"sns:SetSubscriptionAttributes", "sns:ConfirmSubscription"}
    ),
    "GrantPermission": frozenset({"cns:GrantPermission"}),
}


def allows(levels: Iterable[str], action: str) -> bool:
    """Whether one of the levels allows an action such as `sqs:SendMessage`."""
    return any(action in LEVELS[level] for level in levels)
