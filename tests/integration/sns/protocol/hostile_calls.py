"""Random invalid calls of SNS, generated from botocore's shapes.

Each member has a likely value, a hostile one, one of a wrong shape, or none. Most calls have few bad members, so that
later checks are reached, too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.integration.cqs.door import Reply
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION
from tests.protocol.support import botocore_model

DEPTH_MAX = 4
SNS = f"arn:aws:sns:{REGION}:{ACCOUNT}"
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"

Pairs = list[tuple[str, str]]

TEXTS = [
    *("", " ", "a", "x" * 300, "y" * 300_000, "é𝄞" * 200, "%s{0}$(x)`;--'\"\\", "*"),
    *("\x00", "\x1b[31m\r\nX-Injected: 1\n", "a\u2028b\ufffe\uffff", "\ud800"),
    *("null", "true", "TRUE", "-1", "0", "9" * 5_000, "1e999999", "-1e-999999", "NaN", "٣"),
    *(
        "http://[::1",
        "http://a:99999999/",
        "https://example.com/" + "p" * 3_000,
        "http://user:pass@example.com:80/a?b#c",
    ),
    *("redis://localhost:1/0?channel=c", "+15005550006", "+1" + "5" * 40, "a@example.com", "a@" + "b" * 400),
    *("arn:aws:sns:::", "arn:aws:sns", ":" * 50, f"arn:aws:sns:us-west-2:{ACCOUNT}:t"),
    *(f"{SNS}:none", f"{SNS}:none.fifo", f"{SNS}:t:{UNKNOWN_ID}", f"{SNS}:t:not-an-id"),
    *(f"arn:aws:sns:{REGION}:{OTHER}:t", f"arn:aws:iam::{ACCOUNT}:role/r"),
    *(f"{SNS}:app/APNS/none", f"{SNS}:app/NOPE/none/more"),
    *(f"{SNS}:endpoint/APNS/app/{UNKNOWN_ID}", f"{SNS}:endpoint/APNS/app"),
    *(f"arn:aws:sqs:{REGION}:{ACCOUNT}:q", f"arn:aws:sqs:{REGION}:{ACCOUNT}:q.fifo"),
    *("[" * 20_000, '{"a":' * 20_000),
    *(made for n in (400, 5_000) for made in ("[" * n + "]" * n, '{"a":' * n + "1" + "}" * n)),
    *('{"a":1,"a":2}', '"\\ud800"', '{"\\ud800":["\\udfff"]}', '{"a":["\\u0000"]}', "{}", "[]", '""', "{", "1"),
]
FRAGMENTS = [
    *("", "[", "]", "{", '"', ":", "::", "/", "//", "@", "#", "?", "%", "%zz", "-", ".", " ", "0", "+"),
    *("\x00", "\r\n", "é", "٣", "\ud800", "9" * 400, "a" * 300, "[" * 20_000),
]
PIECES: list[Any] = [
    *(None, True, False, 0, -1, 1, 10**30, 1e308, -0.0, 1e-308),
    *("", "a", "x" * 1_000, "\x00", "*", "é", [], {}, [[]], [None]),
]
KEYS = [
    *("a", "", "$or", "a.b", "\x00", "exists", "prefix", "suffix", "anything-but", "numeric", "cidr", "wildcard"),
    *("equals-ignore-case", "Version", "Id", "Statement", "Effect", "Principal", "Action", "Resource", "Condition"),
    *("AWS", "http", "defaultHealthyRetryPolicy", "healthyRetryPolicy", "sicklyRetryPolicy", "throttlePolicy"),
    *("numRetries", "minDelayTarget", "maxDelayTarget", "backoffFunction", "numNoDelayRetries", "requestPolicy"),
    *("maxReceivesPerSecond", "headerContentType", "deadLetterTargetArn", "MessageRetentionPeriod"),
    *("PointType", "StartingPoint", "EndingPoint"),
    *("default", "sqs", "sms", "APNS", "email"),
]  # fmt: skip
DOCUMENTS: list[Any] = [
    {"a": ["b", {"prefix": "c"}, {"numeric": [">", 1, "<=", 5]}, {"anything-but": ["d"]}, {"exists": True}, None, 1.5]},
    {"a": {"b": {"c": [{"cidr": "10.0.0.0/8"}, {"wildcard": "a*b*c"}, {"suffix": {"equals-ignore-case": "X"}}]}}},
    {"$or": [{"a": [1]}, {"b": [{"equals-ignore-case": "É"}]}, {"$or": [{"c": [2]}, {"d": [3]}]}]},
    {"Version": "2012-10-17", "Id": "i", "Statement": [
        {"Sid": "s", "Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["SNS:Publish", "sns:Subscribe"],
         "Resource": f"{SNS}:t", "Condition": {"StringEquals": {"aws:SourceAccount": OTHER, "sns:Protocol": "sqs"},
                                              "ArnLike": {"aws:SourceArn": "arn:aws:s3:*:*:b"}}}]},
    {"healthyRetryPolicy": {"numRetries": 5, "minDelayTarget": 1, "maxDelayTarget": 9, "backoffFunction": "linear"},
     "throttlePolicy": {"maxReceivesPerSecond": 1}, "sicklyRetryPolicy": None,
     "requestPolicy": {"headerContentType": "text/plain"}},
    {"http": {"defaultHealthyRetryPolicy": {"numRetries": 3}, "disableSubscriptionOverrides": False,
              "defaultRequestPolicy": {"headerContentType": "text/html"}}},
    {"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"},
    {"PointType": "Timestamp", "StartingPoint": "2026-01-31T08:00:00.000Z", "EndingPoint": "9999-12-31T23:59:59Z"},
    {"MessageRetentionPeriod": 30},
    {"default": "d", "sqs": "s", "APNS": json.dumps({"aps": {"alert": "a"}}), "sms": "t", "http": "h"},
    {"Name": "p", "Version": "2021-06-01", "Statement": []},
]  # fmt: skip
_WINDOW = json.dumps(DOCUMENTS[7] | {"StartingPoint": "2027-01-31T08:00:00.000Z"})
VALUES = {
    "Policy": [json.dumps(DOCUMENTS[3])],
    "DeliveryPolicy": [json.dumps(DOCUMENTS[4]), json.dumps(DOCUMENTS[5])],
    "FilterPolicy": [json.dumps(each) for each in DOCUMENTS[:3]],
    "FilterPolicyScope": ["MessageBody", "MessageAttributes"],
    "RedrivePolicy": [json.dumps(DOCUMENTS[6])],
    "ReplayPolicy": [_WINDOW],
    "ArchivePolicy": [json.dumps(DOCUMENTS[8])],
    "SignatureVersion": ["1", "2"],
    "TracingConfig": ["Active", "PassThrough"],
    "FifoThroughputScope": ["Topic", "MessageGroup"],
    "SubscriptionRoleArn": [f"arn:aws:iam::{ACCOUNT}:role/r"],
    "EventEndpointCreated": [f"{SNS}:t"],
    "DefaultSMSType": ["Promotional", "Transactional"],
    "MonthlySpendLimit": ["1"],
    "MaximumMessageSize": ["1024"],
}
"""Likely values of attributes. Others get "true"."""
ENDPOINTS = {
    "sqs": [f"arn:aws:sqs:{REGION}:{ACCOUNT}:q", f"arn:aws:sqs:{REGION}:{ACCOUNT}:q.fifo"],
    "cqs": [f"arn:aws:sqs:{REGION}:{OTHER}:q"],
    "http": ["http://example.com/a"],
    "https": ["https://user:pass@example.com/b"],
    "email": ["a@example.com"],
    "email-json": ["b@example.com"],
    "sms": ["+15005550006"],
    "application": [f"{SNS}:endpoint/APNS/app/{UNKNOWN_ID}"],
    "lambda": [f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f"],
    "firehose": [f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/s"],
    "redis": ["redis://user:pass@example.com:1/c"],
}
USUAL_MEMBERS = {"Endpoint", "TopicArn", "StringValue"}
"""Members that most calls have, besides those that the model requires."""
FREQUENT_ACTIONS = 5 * [
    *("CreateTopic", "SetTopicAttributes", "Subscribe", "Subscribe", "SetSubscriptionAttributes"),
    *("Publish", "PublishBatch", "CreatePlatformApplication", "CreatePlatformEndpoint", "TagResource"),
]
"""Actions with many members, which are called more often."""
RARE_ACTIONS = {
    *("DeleteTopic", "Unsubscribe", "DeletePlatformApplication", "DeleteEndpoint", "RemovePermission"),
    *("GetSMSSandboxAccountStatus", "ListTopics", "ListPlatformApplications", "ListSubscriptions"),
    *("ListOriginationNumbers", "ListPhoneNumbersOptedOut", "ListSMSSandboxPhoneNumbers", "GetSMSAttributes"),
}
"""Actions that delete, so that enough resources exist, and actions with few members."""
_OF_TOPICS = [
    *("Policy", "DisplayName", "DeliveryPolicy", "KmsMasterKeyId", "SignatureVersion", "TracingConfig", "FifoTopic"),
    *("ContentBasedDeduplication", "FifoThroughputScope", "ArchivePolicy", "DataProtectionPolicy"),
    *("MaximumMessageSize", "HTTPSuccessFeedbackRoleArn", "SQSSuccessFeedbackSampleRate"),
]
_OF_SUBSCRIPTIONS = [
    *("FilterPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy", "ReplayPolicy"),
    *("SubscriptionRoleArn", "DeliveryPolicy"),
]
_OF_APPLICATIONS = [
    *("PlatformCredential", "PlatformPrincipal", "EventEndpointCreated", "SuccessFeedbackSampleRate"),
    *("AppleCertificateExpiryDate", "ApplePlatformBundleID", "Enabled"),
]
_OF_ENDPOINTS = ["CustomUserData", "Enabled", "Token"]
_OF_SMS = ["MonthlySpendLimit", "DefaultSenderID", "DefaultSMSType", "UsageReportS3Bucket", "DeliveryStatusIAMRole"]
_OF_MESSAGES = ["a", "AWS.SNS.SMS.SenderID", "AWS.SNS.SMS.MaxPrice", "AWS.SNS.MOBILE.APNS.TTL"]
ATTRIBUTES = {
    "CreateTopic": _OF_TOPICS,
    "SetTopicAttributes": _OF_TOPICS,
    "Subscribe": _OF_SUBSCRIPTIONS,
    "SetSubscriptionAttributes": _OF_SUBSCRIPTIONS,
    "CreatePlatformApplication": _OF_APPLICATIONS,
    "SetPlatformApplicationAttributes": _OF_APPLICATIONS,
    "CreatePlatformEndpoint": _OF_ENDPOINTS,
    "SetEndpointAttributes": _OF_ENDPOINTS,
    "SetSMSAttributes": _OF_SMS,
    "GetSMSAttributes": _OF_SMS,
    "Publish": _OF_MESSAGES,
    "PublishBatch": _OF_MESSAGES,
}
LIKELY = {
    "Platform": ["APNS", "APNS_SANDBOX", "GCM", "ADM", "BAIDU", "WNS", "MPNS"],
    "Name": ["t", "t.fifo", "u", "app"],
    "Id": ["i", "j", "k"],
    "TagKeys": ["k", "l"],
    "Key": ["k", "l"],
    "StringValue": ["v", "1", "[1]"],
    "MessageStructure": ["json", "JSON"],
    "DataType": ["String", "String", "Number", "Binary", "String.Array", "Number.x"],
    "MessageGroupId": ["g", "h"],
    "MessageDeduplicationId": ["d", "e"],
    "LanguageCode": ["en-US", "xx"],
    "AuthenticateOnUnsubscribe": ["true", "false"],
    "ReturnSubscriptionArn": ["true", "false"],
    "ActionName": ["Publish", "*", "Subscribe"],
    "AWSAccountId": [OTHER, "*"],
    "PhoneNumber": ["+15005550006"],
    "phoneNumber": ["+15005550006"],
    "OneTimePassword": ["000000"],
    "Subject": ["s"],
    "Message": ["m", "n"],
}  # fmt: skip


class HostileCalls:
    """Generates calls. ARNs and tokens of responses are used in later calls."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # repeatable
        self._model = botocore_model("sns")
        self._known: dict[str, list[str]] = {}
        self._bad_values_left = 0
        """The number of values of this call that may still become bad."""
        self._protocol = ""
        self._attributes: list[str] = []
        self._attribute = ""

    def calls(self, actions: list[str]) -> Iterator[Pairs]:
        while True:
            action = self._random.choice(actions + FREQUENT_ACTIONS)
            if action in RARE_ACTIONS and self._chance(0.8):
                continue
            self._bad_values_left = self._random.choice([0, 1, 1, 2, 100])
            self._protocol = self._random.choice(list(ENDPOINTS))
            self._attributes = ATTRIBUTES.get(action, ["a"])
            self._attribute = self._random.choice(self._attributes)
            shape = self._model.operation_model(action).input_shape
            pairs = [] if shape is None else [*self._structure(shape, "")]
            yield [("Action", action), *self._damage(pairs)]

    def learn(self, reply: Reply) -> None:
        for element in reply.xml().iter():
            if element.text and element.tag.endswith(("Arn", "Token")):
                known = self._known.setdefault(element.tag.lower(), [])
                if element.text not in known:
                    known.append(element.text)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _take_bad_value(self, share: float) -> bool:
        bad = self._bad_values_left > 0 and self._chance(share)
        self._bad_values_left -= bad
        return bad

    def _structure(self, shape: Any, path: str) -> Iterator[tuple[str, str]]:
        for name, member in shape.members.items():
            usual = name in shape.required_members or name in USUAL_MEMBERS
            if not self._take_bad_value(0.03) if usual else self._chance(0.3):
                yield from self._value(member, f"{path}{member.serialization.get('name', name)}", name)

    def _value(self, shape: Any, path: str, name: str) -> Iterator[tuple[str, str]]:
        if self._take_bad_value(0.03):
            yield self._random.choice([path, f"{path}.member.1", f"{path}.entry.1.key", f"{path}.x"]), self._text(name)
        elif shape.type_name == "structure":
            yield from self._structure(shape, f"{path}.")
        elif shape.type_name == "list":
            item = shape.member.serialization.get("name", "member")
            for number in range(1, self._item_count() + 1):
                yield from self._value(shape.member, f"{path}.{item}.{number}", name)
        elif shape.type_name == "map":
            names = [shape.key.serialization.get("name", "key"), shape.value.serialization.get("name", "value")]
            for number in range(1, self._item_count() + 1):
                self._attribute = self._random.choice(self._attributes)
                yield (
                    f"{path}.entry.{number}.{names[0]}",
                    self._text("") if self._take_bad_value(0.1) else self._attribute,
                )
                yield from self._value(shape.value, f"{path}.entry.{number}.{names[1]}", name)
        else:
            yield path, self._text(name)

    def _item_count(self) -> int:
        return self._random.choice([0, 2, 3, 11, 60]) if self._take_bad_value(0.3) else 1

    def _text(self, name: str) -> str:
        good = self._good(name)
        return self._bad(good) if self._take_bad_value(0.25) else good

    def _good(self, name: str) -> str:
        if name in ("AttributeName", "attributeName"):
            return self._attribute
        if name == "Protocol":
            return self._protocol
        if name in ("AttributeValue", "Attributes", "attributes"):
            return self._random.choice(VALUES.get(self._attribute, ["true"]))
        if name == "Endpoint":
            return self._random.choice(ENDPOINTS[self._protocol])
        known = self._known.get("topicarn" if name in ("ResourceArn", "TargetArn") else name.lower(), [])
        return self._random.choice(known[-20:] or LIKELY.get(name, ["v"]))

    def _bad(self, good: str) -> str:
        """A random text, or a good one with a small change."""
        if self._chance(0.2):
            return self._random.choice(TEXTS)
        if good.startswith("{") and self._chance(0.6):
            return json.dumps(self._mutate(json.loads(good), 0), ensure_ascii=self._chance(0.5))
        start, end = sorted([self._random.randint(0, len(good)), self._random.randint(0, len(good))])
        return good[:start] + self._random.choice(FRAGMENTS) + good[start if self._chance(0.5) else end :]

    def _mutate(self, value: Any, depth: int) -> Any:
        """The value with few random changes: other pieces, more levels, or other keys."""
        if self._chance(0.03):
            return self._random.choice(PIECES)
        if self._chance(0.04) and depth < DEPTH_MAX:
            again = self._mutate(value, depth + 1)
            return self._random.choice([{self._random.choice(KEYS): again}, [again], [again] * 200])
        if isinstance(value, dict):
            keys = {key: self._random.choice(KEYS) if self._chance(0.04) else key for key in value}
            return {keys[key]: self._mutate(each, depth + 1) for key, each in value.items()}
        if isinstance(value, list):
            return [self._mutate(each, depth + 1) for each in value]
        return value

    def _damage(self, pairs: Pairs) -> Pairs:
        """The pairs, sometimes with one missing, doubled, or with an invalid number or name."""
        if pairs and self._take_bad_value(0.1):
            at = self._random.randrange(len(pairs))
            name, text = pairs[at]
            others = [name + ".", *[name.replace(".1", f".{number}") for number in ("0", "9" * 20, "x", "-1", "1.1")]]
            instead = [[], [(name, text), (name, "other")], *[[(one, text)] for one in others]]
            pairs[at : at + 1] = self._random.choice(instead)
        return pairs
