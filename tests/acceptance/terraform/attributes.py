"""The attributes of each resource: schemas and attribute maps of the provider."""

from __future__ import annotations

from tests.acceptance.terraform.schema import Attribute, Kind, Schema

_POLICY = Attribute(kind=Kind.POLICY, computed=True)
_JSON = Attribute(kind=Kind.JSON)
_FLAG = Attribute(kind=Kind.FLAG, default="false")
_SECRET = Attribute(kind=Kind.SECRET)
_CHOICE = Attribute(computed=True)
_RATE = Attribute(kind=Kind.NUMBER, default="0")
_FEEDBACK = ("Application", "Firehose", "HTTP", "Lambda", "SQS")


def _number(default: int) -> Attribute:
    return Attribute(kind=Kind.NUMBER, default=str(default))


QUEUE: Schema = {
    "ContentBasedDeduplication": _FLAG,
    "DeduplicationScope": _CHOICE,
    "DelaySeconds": _number(0),
    "FifoQueue": _FLAG,
    "FifoThroughputLimit": _CHOICE,
    "KmsDataKeyReusePeriodSeconds": Attribute(kind=Kind.NUMBER, computed=True),
    "KmsMasterKeyId": Attribute(),
    "MaximumMessageSize": _number(262_144),
    "MessageRetentionPeriod": _number(345_600),
    "Policy": _POLICY,
    "ReceiveMessageWaitTimeSeconds": _number(0),
    "RedriveAllowPolicy": Attribute(kind=Kind.JSON, computed=True),
    "RedrivePolicy": Attribute(kind=Kind.JSON, computed=True),
    "SqsManagedSseEnabled": Attribute(kind=Kind.FLAG, computed=True),
    "VisibilityTimeout": _number(30),
}
QUEUE_POLICY: Schema = {"Policy": _POLICY}
QUEUE_REDRIVE_POLICY: Schema = {"RedrivePolicy": _JSON}
QUEUE_REDRIVE_ALLOW_POLICY: Schema = {"RedriveAllowPolicy": _JSON}

TOPIC: Schema = {
    **{f"{each}{outcome}FeedbackRoleArn": Attribute() for each in _FEEDBACK for outcome in ("Success", "Failure")},
    **{f"{each}SuccessFeedbackSampleRate": _RATE for each in _FEEDBACK},
    "ArchivePolicy": Attribute(kind=Kind.DOCUMENT),
    "ContentBasedDeduplication": _FLAG,
    "DeliveryPolicy": _JSON,
    "DisplayName": Attribute(),
    "FifoThroughputScope": _CHOICE,
    "FifoTopic": _FLAG,
    "KmsMasterKeyId": Attribute(),
    "Policy": _POLICY,
    "SignatureVersion": Attribute(kind=Kind.NUMBER, computed=True),
    "TracingConfig": _CHOICE,
}
TOPIC_POLICY: Schema = {"Policy": _POLICY}

SUBSCRIPTION: Schema = {
    "DeliveryPolicy": Attribute(kind=Kind.TERMS),
    "FilterPolicy": _JSON,
    "FilterPolicyScope": _CHOICE,
    "RawMessageDelivery": _FLAG,
    "RedrivePolicy": _JSON,
    "ReplayPolicy": _JSON,
    "SubscriptionRoleArn": Attribute(),
}

_EVENTS = ("EventDeliveryFailure", "EventEndpointCreated", "EventEndpointDeleted", "EventEndpointUpdated")
_OF_APPLICATION = (*_EVENTS, "FailureFeedbackRoleArn", "SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate")
_OF_APPLE = ("ApplePlatformBundleID", "ApplePlatformTeamID")
PLATFORM_APPLICATION: Schema = {
    **dict.fromkeys(_OF_APPLICATION, Attribute()),
    **dict.fromkeys((*_OF_APPLE, "PlatformCredential", "PlatformPrincipal"), _SECRET),
}

_OF_SMS = ("DefaultSenderID", "DefaultSMSType", "DeliveryStatusIAMRole", "DeliveryStatusSuccessSamplingRate")
SMS_PREFERENCES: Schema = {
    **dict.fromkeys((*_OF_SMS, "UsageReportS3Bucket"), Attribute()),
    "MonthlySpendLimit": Attribute(kind=Kind.NUMBER, computed=True),
}
