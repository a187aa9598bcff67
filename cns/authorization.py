"""Which topic or subscription a call is about, and whether its caller may do there what it asks."""

from __future__ import annotations

from collections.abc import Mapping

from cns.arns import check_subscription_arn, check_topic_arn
from cns.errors import no_such_subscription, no_such_topic
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import Subscription
from cns.topics.cache import TopicCache, TopicView
from cns_common.aws.call import Call
from cns_common.aws.policy.evaluation import PolicyRequest, Verdict, decide, sns_refusal
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
        """The topic of this ARN, once the caller may do `action` there. `parameter` is the one that named it."""
        view = await self.find_topic(call, arn, parameter)
        self.authorise(call, view, action)
        return view

    async def find_topic(self, call: Call, arn: str, parameter: str = "TopicArn") -> TopicView:
        check_topic_arn(arn, parameter, call.region)
        view = await self._topics.find(arn)
        if view is None:
            raise no_such_topic()
        return view

    def authorise(self, call: Call, view: TopicView, action: str, facts: Mapping[str, str] = _NO_FACTS) -> None:
        """Nothing when the topic's policy lets the caller do `action`, else the refusal."""
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
        if verdict is not Verdict.ALLOWED:
            raise RequestError("AuthorizationError", sns_refusal(verdict, request))

    async def own_topic(self, call: Call, arn: str, action: str, parameter: str) -> TopicView:
        """The same for what no policy can grant to another account."""
        view = await self.find_topic(call, arn, parameter)
        check_owner(call, view.account, action, arn)
        self.authorise(call, view, action)
        return view

    async def find_subscription(self, call: Call, arn: str) -> Subscription | None:
        check_subscription_arn(arn, "" if unsigned(call) else call.region)
        found = await self._subscriptions.get([arn])
        return found[0] if found else None

    async def own_subscription(self, call: Call, arn: str, action: str) -> Subscription:
        """A subscription's attributes are its owner's alone, even where the topic is another's."""
        subscription = await self.find_subscription(call, arn)
        if subscription is None:
            raise no_such_subscription()
        check_owner(call, subscription.owner, action, arn)
        return subscription


def check_owner(call: Call, owner: str, action: str, arn: str) -> None:
    """For what is its owner's alone."""
    if owns(call, owner):
        return
    request = PolicyRequest(principal=call.caller, action=f"sns:{action}", resource=arn)
    raise RequestError("AuthorizationError", sns_refusal(Verdict.NOT_ALLOWED, request))


def owns(call: Call, account: str) -> bool:
    """Under --auth=off everybody owns everything."""
    return not call.policies_enforced or call.caller.account == account


def unsigned(call: Call) -> bool:
    """Under --auth=off a caller without credentials passes for the default account: such a one has no key id."""
    return call.caller.anonymous or not (call.policies_enforced or call.caller.key_id)
