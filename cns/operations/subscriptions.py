"""Subscribe, ConfirmSubscription, Unsubscribe, the attributes of subscriptions, and their lists."""

from __future__ import annotations

from cns.errors import null_member, required_text
from cns.subscriptions.confirm_and_unsubscribe import ConsentHandler
from cns.subscriptions.endpoint_syntax import masked_endpoint
from cns.subscriptions.subscribe import SubscribeHandler, SubscribeRequest
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.subscriptions.subscriptions import SubscriptionPage, Subscriptions
from cns_common.aws.call import Call, Params, Result


class SubscriptionOperations:
    def __init__(self, handler: SubscribeHandler, consent: ConsentHandler, subscriptions: Subscriptions) -> None:
        self._subscribe_handler = handler
        self._consent = consent
        self._subscriptions = subscriptions

    async def subscribe(self, call: Call, params: Params) -> Result:
        request = SubscribeRequest(
            topic_arn=required_text(params, "TopicArn"),
            protocol=required_text(params, "Protocol"),
            endpoint=params.get("Endpoint") or "",
            attributes=params.get("Attributes") or {},
            return_arn=params.get("ReturnSubscriptionArn") is True,
        )
        return {"SubscriptionArn": await self._subscribe_handler.subscribe(call, request)}

    async def confirm_subscription(self, call: Call, params: Params) -> Result:
        token = params.get("Token")
        if token is None:
            raise null_member("token")
        protect = (params.get("AuthenticateOnUnsubscribe") or "").lower() == "true"
        topic_arn = required_text(params, "TopicArn")
        return {"SubscriptionArn": await self._consent.confirm(call, topic_arn, token, protect=protect)}

    async def unsubscribe(self, call: Call, params: Params) -> Result:
        await self._consent.unsubscribe(call, required_text(params, "SubscriptionArn"))
        return {}

    async def get_subscription_attributes(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "SubscriptionArn")
        return {"Attributes": await self._subscriptions.describe(call, arn)}

    async def set_subscription_attributes(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "SubscriptionArn")
        name = required_text(params, "AttributeName")
        await self._subscriptions.set_attribute(call, arn, name, params.get("AttributeValue") or "")
        return {}

    async def list_subscriptions(self, call: Call, params: Params) -> Result:
        return _listing(await self._subscriptions.page_of_owner(call, params.get("NextToken")))

    async def list_subscriptions_by_topic(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "TopicArn")
        return _listing(await self._subscriptions.page_of_topic(call, arn, params.get("NextToken")))


def _listing(listed: SubscriptionPage) -> Result:
    page, token = listed
    return {"Subscriptions": [_member(subscription) for subscription in page], "NextToken": token}


def _member(subscription: Subscription) -> Result:
    return {
        "Owner": subscription.owner,
        "Protocol": subscription.protocol,
        "Endpoint": masked_endpoint(subscription.endpoint),
        "SubscriptionArn": _shown_arn(subscription),
        "TopicArn": subscription.topic_arn,
    }


def _shown_arn(subscription: Subscription) -> str:
    """Lists hide the ARNs of subscriptions that are not confirmed."""
    match subscription.state:
        case SubscriptionState.PENDING:
            return "PendingConfirmation"
        case SubscriptionState.REMOVED:
            return "Deleted"
        case SubscriptionState.CONFIRMED:
            return subscription.arn
