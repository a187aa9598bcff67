"""Finds the topic or subscription of a call and checks that the caller is allowed the action."""

from __future__ import annotations

from collections.abc import Mapping

from cns.arns import check_subscription_arn, check_topic_arn
from cns.errors import no_such_subscription, no_such_topic
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import Subscription
from cns.topics.cache import TopicCache, TopicView
from cns_common.aws.call import Call
from cns_common.aws.policy.evaluation import PolicyRequest, PolicyVerdict, decide, sns_refusal
from cns_common.aws.policy.request_context import call_facts
from cns_common.clock import Clock
from cns_common.errors import RequestError

_NO_FACTS: Mapping[str, str] = {}


class Access:
    def __init__(self, topics: TopicCache, subscriptions: SubscriptionStore, clock: Clock) -> None:
        self._topics = topics
        self._subscriptions = subscriptions
        self._clock = clock

    async def topic(self, call: Call, arn: str, action: str, parameter: str = "TopicArn") -> TopicView:
        """The topic, if the caller is allowed `action`. `parameter` is the name of the parameter with the ARN, for
        errors."""
        view = await self.find_topic(call, arn, action, parameter)
        self.authorise(call, view, action)
        return view

    async def find_topic(self, call: Call, arn: str, action: str, parameter: str = "TopicArn") -> TopicView:
        """The topic, whether or not the caller is allowed `action`."""
        check_topic_arn(arn, parameter, call.region)
        view = await self._topics.find(arn)
        if view is None:
            raise absent_topic(call, arn, action)
        return view

    def authorise(self, call: Call, view: TopicView, action: str, facts: Mapping[str, str] = _NO_FACTS) -> None:
        """Raise unless the topic's policy allows the caller `action`."""
        if not call.policies_enforced or (view.policy is None and call.caller.account == view.account):
            return
        tags = {f"aws:ResourceTag/{key}": value for key, value in view.topic.tags.items()}
        request = PolicyRequest(
            principal=call.caller,
            action=f"sns:{action}",
            resource=view.arn,
            facts={**call_facts(call, self._clock.now_ms()), **tags, **facts},
        )
        verdict = decide(view.policy, view.account, request)
        if verdict is not PolicyVerdict.ALLOWED:
            raise RequestError("AuthorizationError", sns_refusal(verdict, request))

    async def find_subscription(self, call: Call, arn: str) -> Subscription | None:
        check_subscription_arn(arn, "" if unsigned(call) else call.region)
        found = await self._subscriptions.get([arn])
        return found[0] if found else None

    async def own_subscription(self, call: Call, arn: str) -> Subscription:
        """The subscription, if the caller owns it. The owner of the topic has no access to its attributes."""
        subscription = await self.find_subscription(call, arn)
        if subscription is None:
            raise no_such_subscription()
        if not owns(call, subscription.owner):
            raise RequestError("AuthorizationError", "Not authorized to access this subscription")
        return subscription


def absent_topic(call: Call, arn: str, action: str) -> RequestError:
    """The error of a call on a topic that does not exist. Callers of other accounts are not told that."""
    check_owner(call, arn.split(":", 5)[4], action, arn)
    return no_such_topic()


def check_owner(call: Call, owner: str, action: str, arn: str) -> None:
    """Raise unless the caller is the owner."""
    if owns(call, owner):
        return
    request = PolicyRequest(principal=call.caller, action=f"sns:{action}", resource=arn)
    raise RequestError("AuthorizationError", sns_refusal(PolicyVerdict.NOT_ALLOWED, request))


def owns(call: Call, account: str) -> bool:
    """Whether the caller's account is `account`. Under --auth=off every caller owns everything."""
    return not call.policies_enforced or call.caller.account == account


def unsigned(call: Call) -> bool:
    """Whether the call has no signature. Under --auth=off such a call has the default account, but no key id."""
    return call.caller.anonymous or not (call.policies_enforced or call.caller.key_id)
