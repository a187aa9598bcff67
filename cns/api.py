"""The SNS API: the table of actions and their operations."""

from __future__ import annotations

from cns.operations.data_protection import DataProtectionOperations
from cns.operations.endpoints import EndpointOperations
from cns.operations.permissions import TopicPermissionOperations
from cns.operations.platforms import PlatformOperations
from cns.operations.publishing import PublishOperations
from cns.operations.sms import SmsOperations
from cns.operations.subscriptions import SubscriptionOperations
from cns.operations.tags import TopicTagOperations
from cns.operations.topics import TopicOperations
from cns.service import NotificationService
from cns_common.aws.call import Operation

ANONYMOUS = frozenset({"ConfirmSubscription", "Unsubscribe"})
"""Actions that need no signature: a token or the link in a notification authorises them."""


def operations(service: NotificationService) -> dict[str, Operation]:
    topics = TopicOperations(service.topics)
    permissions = TopicPermissionOperations(service.topics)
    tags = TopicTagOperations(service.topics)
    protection = DataProtectionOperations(service.data_protection)
    subscriptions = SubscriptionOperations(service.subscribe_handler, service.consent, service.subscriptions)
    publishing = PublishOperations(service.publisher, service.direct_publisher)
    platforms = PlatformOperations(service.platforms)
    endpoints = EndpointOperations(service.mobile_endpoints)
    sms = SmsOperations(service.sms, service.sms_sandbox)
    return {
        "AddPermission": permissions.add_permission,
        "CheckIfPhoneNumberIsOptedOut": sms.check_if_phone_number_is_opted_out,
        "ConfirmSubscription": subscriptions.confirm_subscription,
        "CreatePlatformApplication": platforms.create_platform_application,
        "CreatePlatformEndpoint": endpoints.create_platform_endpoint,
        "CreateSMSSandboxPhoneNumber": sms.create_sms_sandbox_phone_number,
        "CreateTopic": topics.create_topic,
        "DeleteEndpoint": endpoints.delete_endpoint,
        "DeletePlatformApplication": platforms.delete_platform_application,
        "DeleteSMSSandboxPhoneNumber": sms.delete_sms_sandbox_phone_number,
        "DeleteTopic": topics.delete_topic,
        "GetDataProtectionPolicy": protection.get_data_protection_policy,
        "GetEndpointAttributes": endpoints.get_endpoint_attributes,
        "GetPlatformApplicationAttributes": platforms.get_platform_application_attributes,
        "GetSMSAttributes": sms.get_sms_attributes,
        "GetSMSSandboxAccountStatus": sms.get_sms_sandbox_account_status,
        "GetSubscriptionAttributes": subscriptions.get_subscription_attributes,
        "GetTopicAttributes": topics.get_topic_attributes,
        "ListEndpointsByPlatformApplication": endpoints.list_endpoints_by_platform_application,
        "ListOriginationNumbers": sms.list_origination_numbers,
        "ListPhoneNumbersOptedOut": sms.list_phone_numbers_opted_out,
        "ListPlatformApplications": platforms.list_platform_applications,
        "ListSMSSandboxPhoneNumbers": sms.list_sms_sandbox_phone_numbers,
        "ListSubscriptions": subscriptions.list_subscriptions,
        "ListSubscriptionsByTopic": subscriptions.list_subscriptions_by_topic,
        "ListTagsForResource": tags.list_tags_for_resource,
        "ListTopics": topics.list_topics,
        "OptInPhoneNumber": sms.opt_in_phone_number,
        "Publish": publishing.publish,
        "PublishBatch": publishing.publish_batch,
        "PutDataProtectionPolicy": protection.put_data_protection_policy,
        "RemovePermission": permissions.remove_permission,
        "SetEndpointAttributes": endpoints.set_endpoint_attributes,
        "SetPlatformApplicationAttributes": platforms.set_platform_application_attributes,
        "SetSMSAttributes": sms.set_sms_attributes,
        "SetSubscriptionAttributes": subscriptions.set_subscription_attributes,
        "SetTopicAttributes": topics.set_topic_attributes,
        "Subscribe": subscriptions.subscribe,
        "TagResource": tags.tag_resource,
        "Unsubscribe": subscriptions.unsubscribe,
        "UntagResource": tags.untag_resource,
        "VerifySMSSandboxPhoneNumber": sms.verify_sms_sandbox_phone_number,
    }
