"""The SNS API: every action this service answers, and the operation that does."""

from __future__ import annotations

from cns.operations.permissions import PermissionOperations
from cns.operations.publishing import PublishOperations
from cns.operations.subscriptions import SubscriptionOperations
from cns.operations.tags import TagOperations
from cns.operations.topics import TopicOperations
from cns.service import NotificationService
from common.aws.call import Operation

ANONYMOUS = frozenset({"ConfirmSubscription", "Unsubscribe"})
"""Actions that need no signature: a token, or the link in a notification, is enough."""


def operations(service: NotificationService) -> dict[str, Operation]:
    topics = TopicOperations(service.topics)
    permissions = PermissionOperations(service.topics)
    tags = TagOperations(service.topics)
    subscriptions = SubscriptionOperations(service.subscribing, service.consent, service.subscriptions)
    publishing = PublishOperations(service.publishing)
    return {
        "AddPermission": permissions.add_permission,
        "ConfirmSubscription": subscriptions.confirm_subscription,
        "CreateTopic": topics.create_topic,
        "DeleteTopic": topics.delete_topic,
        "GetSubscriptionAttributes": subscriptions.get_subscription_attributes,
        "GetTopicAttributes": topics.get_topic_attributes,
        "ListSubscriptions": subscriptions.list_subscriptions,
        "ListSubscriptionsByTopic": subscriptions.list_subscriptions_by_topic,
        "ListTagsForResource": tags.list_tags_for_resource,
        "ListTopics": topics.list_topics,
        "Publish": publishing.publish,
        "PublishBatch": publishing.publish_batch,
        "RemovePermission": permissions.remove_permission,
        "SetSubscriptionAttributes": subscriptions.set_subscription_attributes,
        "SetTopicAttributes": topics.set_topic_attributes,
        "Subscribe": subscriptions.subscribe,
        "TagResource": tags.tag_resource,
        "Unsubscribe": subscriptions.unsubscribe,
        "UntagResource": tags.untag_resource,
    }
