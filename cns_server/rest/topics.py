"""Topics, subscriptions and publishing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from cns.rest.models import (
    PublishedMessage,
    Subscription,
    SubscriptionArn,
    SubscriptionAttributes,
    SubscriptionList,
    Topic,
    TopicList,
)
from cns_backend.explain.causes import NO_DEAD_LETTER_QUEUE, unprotected
from cns_common.arn import parse_arn
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.messages import sqs_attributes
from cns_server.rest.models import (
    Confirmation,
    NewNotification,
    NewSubscription,
    NewTopic,
    QueueChange,
    SubscriptionChange,
)
from cns_server.rest.queues import AccountId, After
from cqs.topic_sender import TopicSender

TopicName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,256}(\.fifo)?$", max_length=256)]
SubscriptionId = Annotated[str, Path(pattern="^[0-9a-f-]{36}$", description="The last part of its ARN.")]


class TopicRoutes:
    def __init__(self, calls: RestCalls, sender: TopicSender) -> None:
        self._calls = calls
        self._sender = sender

    def add_to(self, router: APIRouter) -> None:
        topics = "/accounts/{account}/topics"
        topic = topics + "/{topic}"
        subscription = topic + "/subscriptions/{subscription}"
        add = router.add_api_route
        add(topics, self.list_topics, methods=["GET"], response_model=TopicList)
        add(topics, self.create_topic, methods=["POST"], status_code=201, response_model=Topic)
        add(topic, self.show_topic, methods=["GET"], response_model=Topic)
        add(topic, self.change_topic, methods=["PATCH"], response_model=Topic)
        add(topic, self.delete_topic, methods=["DELETE"], status_code=204, response_class=Response)
        add(
            topic + "/messages",
            self.publish_message,
            methods=["POST"],
            status_code=201,
            response_model=PublishedMessage,
        )
        add(topic + "/subscriptions", self.list_topic_subscriptions, methods=["GET"], response_model=SubscriptionList)
        add(
            topic + "/subscriptions",
            self.create_subscription,
            methods=["POST"],
            status_code=201,
            response_model=SubscriptionArn,
        )
        add(
            topic + "/confirmations",
            self.confirm_subscription,
            methods=["POST"],
            status_code=201,
            response_model=SubscriptionArn,
        )
        add(subscription, self.show_subscription, methods=["GET"], response_model=SubscriptionAttributes)
        add(subscription, self.change_subscription, methods=["PATCH"], response_model=SubscriptionAttributes)
        add(subscription, self.delete_subscription, methods=["DELETE"], status_code=204, response_class=Response)
        add(
            "/accounts/{account}/subscriptions",
            self.list_subscriptions,
            methods=["GET"],
            response_model=SubscriptionList,
        )

    async def list_topics(self, rest: Begun, account: AccountId, after: After = "") -> TopicList:
        """The ARNs of the account's topics."""
        self._calls.check_own(rest, account)
        result = await self._calls.run(rest, "sns:ListTopics", {"NextToken": after or None}, account=account)
        return TopicList(topics=[one["TopicArn"] for one in result.get("Topics") or ()], next=result.get("NextToken"))

    async def create_topic(self, rest: Begun, account: AccountId, body: NewTopic) -> Topic:
        """Create a topic, or find the one with these attributes."""
        async with self._calls.refusals(rest, "sns:CreateTopic", body.name):
            self._calls.check_own(rest, account)
        tags = [{"Key": key, "Value": value} for key, value in body.tags.items()]
        params = {"Name": body.name, "Attributes": body.attributes, "Tags": tags}
        result = await self._calls.run(rest, "sns:CreateTopic", params, account=account)
        return Topic(name=body.name, arn=result["TopicArn"], attributes=body.attributes)

    async def show_topic(self, rest: Begun, account: AccountId, topic: TopicName) -> Topic:
        """The topic with its attributes."""
        result = await self._run(rest, "sns:GetTopicAttributes", account, topic)
        return Topic(name=topic, arn=rest.topic_arn(account, topic), attributes=result["Attributes"])

    async def change_topic(self, rest: Begun, account: AccountId, topic: TopicName, body: QueueChange) -> Topic:
        """Set attributes, one after the other."""
        for name, value in body.attributes.items():
            params = {"AttributeName": name, "AttributeValue": value}
            await self._run(rest, "sns:SetTopicAttributes", account, topic, params)
        return await self.show_topic(rest, account, topic)

    async def delete_topic(self, rest: Begun, account: AccountId, topic: TopicName) -> None:
        """Delete the topic and its subscriptions."""
        await self._run(rest, "sns:DeleteTopic", account, topic)

    async def publish_message(
        self, rest: Begun, account: AccountId, topic: TopicName, body: NewNotification
    ) -> PublishedMessage:
        """Publish a message to all subscriptions."""
        params = {
            "Message": body.message,
            "Subject": body.subject,
            "MessageStructure": body.structure,
            "MessageAttributes": sqs_attributes(body.attributes),
            "MessageGroupId": body.group_id,
            "MessageDeduplicationId": body.deduplication_id,
        }
        result = await self._run(rest, "sns:Publish", account, topic, params)
        return PublishedMessage(message_id=result["MessageId"], sequence_number=result.get("SequenceNumber"))

    # -- subscriptions ------------------------------------------------------------------------------------------------

    async def list_subscriptions(self, rest: Begun, account: AccountId, after: After = "") -> SubscriptionList:
        """The subscriptions of all topics of the account."""
        self._calls.check_own(rest, account)
        result = await self._calls.run(rest, "sns:ListSubscriptions", {"NextToken": after or None}, account=account)
        return _subscriptions(result)

    async def list_topic_subscriptions(
        self, rest: Begun, account: AccountId, topic: TopicName, after: After = ""
    ) -> SubscriptionList:
        """The topic's subscriptions."""
        params = {"NextToken": after or None}
        return _subscriptions(await self._run(rest, "sns:ListSubscriptionsByTopic", account, topic, params))

    async def create_subscription(
        self, rest: Begun, account: AccountId, topic: TopicName, body: NewSubscription
    ) -> SubscriptionArn:
        """Subscribe an endpoint. HTTP and e-mail endpoints are asked to confirm. `warnings` says why messages will not
        arrive, or may be lost."""
        params = {
            "Protocol": body.protocol,
            "Endpoint": body.endpoint,
            "Attributes": body.attributes,
            "ReturnSubscriptionArn": True,
        }
        result = await self._run(rest, "sns:Subscribe", account, topic, params)
        arn = result["SubscriptionArn"]
        return SubscriptionArn(arn=arn, warnings=await self._warnings(rest, account, topic, body))

    async def _warnings(self, rest: RestCall, account: str, topic: str, made: NewSubscription) -> list[str]:
        if unprotected(made.protocol, made.attributes):
            return [f"the subscription has {NO_DEAD_LETTER_QUEUE.title}: set its RedrivePolicy"]
        queue = parse_arn(made.endpoint)
        if made.protocol != "sqs" or queue is None or queue.account != account:
            return []
        topic_arn, enforced = rest.topic_arn(account, topic), self._calls.authenticator.enforced
        refusal = await self._sender.refusal(made.endpoint, topic_arn=topic_arn, enforced=enforced)
        if refusal is None or refusal.code != "AccessDenied":  # one that is not here may be another service's
            return []
        return [f"nothing will arrive: {refusal.message}; `cns topic subscribe … --allow` adds the statement"]

    async def confirm_subscription(
        self, rest: Begun, account: AccountId, topic: TopicName, body: Confirmation
    ) -> SubscriptionArn:
        """Confirm a subscription with the token that its endpoint got."""
        result = await self._run(rest, "sns:ConfirmSubscription", account, topic, {"Token": body.token})
        return SubscriptionArn(arn=result["SubscriptionArn"])

    async def show_subscription(
        self, rest: Begun, account: AccountId, topic: TopicName, subscription: SubscriptionId
    ) -> SubscriptionAttributes:
        """The subscription's attributes."""
        params = {"SubscriptionArn": f"{rest.topic_arn(account, topic)}:{subscription}"}
        result = await self._calls.run(rest, "sns:GetSubscriptionAttributes", params, account=account)
        return SubscriptionAttributes(attributes=result["Attributes"])

    async def change_subscription(
        self,
        rest: Begun,
        account: AccountId,
        topic: TopicName,
        subscription: SubscriptionId,
        body: SubscriptionChange,
    ) -> SubscriptionAttributes:
        """Set attributes, one after the other."""
        arn = f"{rest.topic_arn(account, topic)}:{subscription}"
        for name, value in body.attributes.items():
            params = {"SubscriptionArn": arn, "AttributeName": name, "AttributeValue": value}
            await self._calls.run(rest, "sns:SetSubscriptionAttributes", params, account=account)
        return await self.show_subscription(rest, account, topic, subscription)

    async def delete_subscription(
        self, rest: Begun, account: AccountId, topic: TopicName, subscription: SubscriptionId
    ) -> None:
        """Delete a subscription."""
        params = {"SubscriptionArn": f"{rest.topic_arn(account, topic)}:{subscription}"}
        await self._calls.run(rest, "sns:Unsubscribe", params, account=account)

    async def _run(
        self, rest: RestCall, action: str, account: str, topic: str, params: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        given = {"TopicArn": rest.topic_arn(account, topic), **(params or {})}
        return await self._calls.run(rest, action, given, account=account)


def _subscriptions(result: dict[str, Any]) -> SubscriptionList:
    return SubscriptionList(
        subscriptions=[
            Subscription(
                arn=one["SubscriptionArn"],
                protocol=one["Protocol"],
                endpoint=one["Endpoint"],
                owner=one["Owner"],
                topic_arn=one["TopicArn"],
            )
            for one in result.get("Subscriptions") or ()
        ],
        next=result.get("NextToken"),
    )
