"""Topics and subscriptions, after `internal/service/sns/topic.go`, `topic_policy.go` and `topic_subscription.go`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.acceptance.terraform.attributes import SUBSCRIPTION, TOPIC, TOPIC_POLICY
from tests.acceptance.terraform.resource import Config, Resource, found
from tests.acceptance.terraform.schema import Schema, Values, at_creation, at_update, has_valid_principals


@dataclass(frozen=True)
class Topic(Resource):
    """`aws_sns_topic`: CreateTopic says no more than whether it is FIFO, and each other attribute is set by itself."""

    name: str = ""
    schema: Schema = field(default_factory=lambda: TOPIC)

    def create(self, wanted: Config) -> str:
        attributes = at_creation(self.schema, wanted.values)
        first = {name: attributes.pop(name) for name in ("FifoTopic", "FifoThroughputScope") if name in attributes}
        more = {"Tags": _tag_list(wanted.tags)} if wanted.tags else {}
        arn = str(self.client.create_topic(Name=self.name, Attributes=first, **more)["TopicArn"])
        self._put(arn, attributes)
        return arn

    def read(self, key: str) -> Config | None:
        answer = found(self.client.get_topic_attributes, "NotFound", TopicArn=key)
        if answer is None:
            return None
        assert has_valid_principals(answer["Attributes"]["Policy"])
        tags = self.client.list_tags_for_resource(ResourceArn=key)["Tags"]
        return Config(values=answer["Attributes"], tags={tag["Key"]: tag["Value"] for tag in tags})

    def update(self, key: str, before: Config, after: Config) -> None:
        self._put(key, at_update(self.schema, before.values, after.values))
        if gone := [name for name in before.tags if name not in after.tags]:
            self.client.untag_resource(ResourceArn=key, TagKeys=gone)
        if new := dict(after.tags.items() - before.tags.items()):
            self.client.tag_resource(ResourceArn=key, Tags=_tag_list(new))

    def delete(self, key: str) -> None:
        self.client.delete_topic(TopicArn=key)

    def _put(self, arn: str, attributes: Values) -> None:
        for name, text in attributes.items():
            if name != "Policy" or text:
                self.client.set_topic_attributes(TopicArn=arn, AttributeName=name, AttributeValue=text)


@dataclass(frozen=True)
class TopicPolicy(Topic):
    """`aws_sns_topic_policy`: deleting it sets the default one."""

    arn: str = ""
    default: str = ""
    schema: Schema = field(default_factory=lambda: TOPIC_POLICY)

    def create(self, wanted: Config) -> str:
        self._put(self.arn, at_creation(self.schema, wanted.values))
        return self.arn

    def delete(self, key: str) -> None:
        self._put(key, {"Policy": self.default})


@dataclass(frozen=True)
class Subscription(Resource):
    """`aws_sns_topic_subscription`; `waits`: until the endpoint has confirmed."""

    topic_arn: str = ""
    protocol: str = "sqs"
    endpoint: str = ""
    waits: bool = True
    schema: Schema = field(default_factory=lambda: SUBSCRIPTION)

    def create(self, wanted: Config) -> str:
        answer = self.client.subscribe(
            TopicArn=self.topic_arn,
            Protocol=self.protocol,
            Endpoint=self.endpoint,
            Attributes=at_creation(self.schema, wanted.values),
            ReturnSubscriptionArn=True,
        )
        return str(answer["SubscriptionArn"])

    def read(self, key: str) -> Config | None:
        answer = found(self.client.get_subscription_attributes, "NotFound", SubscriptionArn=key)
        return None if answer is None else Config(values=answer["Attributes"])

    def update(self, key: str, before: Config, after: Config) -> None:
        """MessageBody goes first, MessageAttributes last: no policy is ever under a scope that it does not suit."""
        attributes = at_update(self.schema, before.values, after.values)
        scope = attributes.pop("FilterPolicyScope", "")
        if scope == "MessageBody":
            self._put(key, "FilterPolicyScope", scope)
        for name, text in attributes.items():
            self._put(key, name, text)
        if scope == "MessageAttributes":
            self._put(key, "FilterPolicyScope", scope)

    def delete(self, key: str) -> None:
        try:
            self.client.unsubscribe(SubscriptionArn=key)
        except self.client.exceptions.InvalidParameterException as error:
            if "Cannot unsubscribe a subscription that is pending confirmation" not in str(error):
                raise

    def _put(self, arn: str, name: str, text: str) -> None:
        """A redrive policy is taken away by no value at all, a filter policy by an empty one."""
        if name == "FilterPolicy":
            text = text or "{}"
        value = {} if name == "RedrivePolicy" and not text else {"AttributeValue": text}
        self.client.set_subscription_attributes(SubscriptionArn=arn, AttributeName=name, **value)


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": text} for key, text in tags.items()]
