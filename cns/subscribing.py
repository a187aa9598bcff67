"""Subscribe: an endpoint is entered for a topic, and asked whether it agrees where it is not the subscriber's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from cns.access import Access
from cns.arns import parse_queue_arn
from cns.confirmations import Confirmations
from cns.endpoint_syntax import check_endpoint_syntax, check_protocol
from cns.limits import UPDATE_TRIES_MAX, Quotas
from cns.refusals import AT_CREATION, concurrent_access, invalid, missing, no_such_topic
from cns.stores.contract import SubscriptionStore
from cns.subscription import HTTP_PROTOCOLS, State, Subscription
from cns.subscription_attributes import check_new, differs, merged
from cns.topic_view import TopicView
from common.aws.call import Call
from common.clock import Clock
from common.errors import RequestError
from common.ids import uuid_text

CheckEndpoint = Callable[[str], Awaitable[str | None]]
"""Why a URL may not be subscribed, or None."""

PENDING = "pending confirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a caller asks for with Subscribe."""

    topic_arn: str
    protocol: str
    endpoint: str
    attributes: Mapping[str, str]
    return_arn: bool


class Subscribing:
    def __init__(
        self,
        store: SubscriptionStore,
        access: Access,
        confirmations: Confirmations,
        clock: Clock,
        quotas: Quotas,
        check_endpoint: CheckEndpoint,
    ) -> None:
        self._store = store
        self._access = access
        self._confirmations = confirmations
        self._clock = clock
        self._quotas = quotas
        self._check_endpoint = check_endpoint

    async def subscribe(self, call: Call, wish: Wish) -> str:
        """The subscription's ARN, or that it waits for confirmation. A topic has one for each protocol and endpoint;
        one that exists must not differ in any attribute that is given."""
        view = await self._access.find_topic(call, wish.topic_arn)
        facts = {"sns:Protocol": wish.protocol, "sns:Endpoint": wish.endpoint}
        self._access.authorise(call, view, "Subscribe", facts)
        protocol = _check(wish)
        draft = self._draft(call, view, protocol, wish.endpoint)
        wanted = check_new(draft, wish.attributes)
        await self._check_address(protocol, wish.endpoint)
        subscription = await self._enter(call, replace(draft, attributes=merged({}, wanted)))
        if subscription.id != draft.id:
            if differs(subscription, wanted):
                raise invalid(f"{AT_CREATION}Subscription already exists with different attributes")
            await self._ask_again(call, subscription)
        return PENDING if subscription.state is State.PENDING and not wish.return_arn else subscription.arn

    async def _check_address(self, protocol: str, endpoint: str) -> None:
        if protocol in HTTP_PROTOCOLS:
            refusal = await self._check_endpoint(endpoint)
            if refusal is not None:
                raise RequestError("AuthorizationError", refusal)

    def _draft(self, call: Call, view: TopicView, protocol: str, endpoint: str) -> Subscription:
        """Who owns the queue needs no confirmation from it, and nobody else can remove the subscription."""
        caller = call.caller
        queue = parse_queue_arn(endpoint)
        own = queue is not None and queue.account == caller.account
        return Subscription(
            id=uuid_text(),
            topic_arn=view.arn,
            topic_id=view.topic.id,
            owner=caller.account,
            principal=caller.arn,
            protocol=protocol,
            endpoint=endpoint,
            state=State.CONFIRMED if own else State.PENDING,
            authenticated=own,
            created_ms=self._clock.now_ms(),
        )

    async def _enter(self, call: Call, subscription: Subscription) -> Subscription:
        await self._check_quotas(subscription)
        token = None
        if subscription.state is State.PENDING:
            token = self._confirmations.new_token(subscription)
            subscription = replace(subscription, expires_ms=token.expires_ms)
        entered = await self._store.create(subscription, token)
        if entered is None:
            raise no_such_topic()
        if token is not None and entered.id == subscription.id:
            await self._confirmations.send("SubscriptionConfirmation", subscription, token, call.base_url)
        return entered

    async def _check_quotas(self, subscription: Subscription) -> None:
        counts = await self._store.counts(subscription.topic_arn)
        full = counts.pending + counts.confirmed + counts.removed >= self._quotas.topic_subscriptions
        if subscription.state is State.PENDING and not full:
            full = await self._store.count_pending(subscription.owner) >= self._quotas.pending_subscriptions
        if full:
            raise RequestError("SubscriptionLimitExceeded", "Subscription limit exceeded")

    async def _ask_again(self, call: Call, subscription: Subscription) -> None:
        """A new token for one that is not confirmed; those issued before stay good."""
        current = subscription
        for _ in range(UPDATE_TRIES_MAX):
            if current.state is State.CONFIRMED:
                return
            token = self._confirmations.new_token(current)
            renewed = replace(current, expires_ms=token.expires_ms, version=current.version + 1)
            if await self._store.replace(renewed, current.version, token):
                await self._confirmations.send("SubscriptionConfirmation", renewed, token, call.base_url)
                return
            found = await self._store.get([subscription.arn])
            if not found:
                return
            current = found[0]
        raise concurrent_access()


def _check(wish: Wish) -> str:
    """The protocol, as it is stored."""
    if not wish.endpoint:
        raise missing("Endpoint")
    protocol = check_protocol(wish.protocol)
    check_endpoint_syntax(protocol, wish.endpoint)
    return protocol
