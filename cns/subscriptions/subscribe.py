"""Subscribe: an endpoint is entered for a topic, and asked whether it agrees where it is not the subscriber's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from cns.archives.replay_api import SubscriptionReplays
from cns.archives.replay_policy import REPLAY_POLICY
from cns.authorization import Access
from cns.errors import AT_CREATION, concurrent_access, invalid_parameter, missing_parameter, no_such_topic
from cns.limits import FIFO_SUFFIX, MESSAGE_BYTES_DEFAULT, UPDATE_TRIES_MAX, Quotas
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.attributes import check_new, differs, merged
from cns.subscriptions.confirmation_tokens import Confirmations
from cns.subscriptions.endpoint_syntax import account_of, check_endpoint, check_pairing, check_protocol
from cns.subscriptions.filter_quotas import filter_limits, is_room_for, limit_exceeded
from cns.subscriptions.firehose import check_stream
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics import large_messages
from cns.topics.cache import TopicView
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text

CheckEndpoint = Callable[[str], Awaitable[str | None]]
"""Why a URL may not be subscribed, or None."""
MayBeSubscribed = Callable[[str], Awaitable[None]]
"""Raises the refusal of an endpoint that only asking can tell of."""

PENDING = "pending confirmation"
_NOT_ASKED = frozenset({"sms", "redis"})
"""They have no way to answer: a phone that stops wanting messages opts out, a channel needs nobody to hear it."""


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
        replays: SubscriptionReplays,
        checks: Mapping[str, MayBeSubscribed],
    ) -> None:
        """`checks` are by protocol."""
        self._store = store
        self._access = access
        self._confirmations = confirmations
        self._clock = clock
        self._quotas = quotas
        self._replays = replays
        self._checks = checks

    async def subscribe(self, call: Call, wish: Wish) -> str:
        """The subscription's ARN, or that it waits for confirmation. A topic has one for each protocol and endpoint;
        one that exists must not differ in any attribute that is given."""
        view = await self._access.find_topic(call, wish.topic_arn)
        facts = {"sns:Protocol": wish.protocol, "sns:Endpoint": wish.endpoint}
        self._access.authorise(call, view, "Subscribe", facts)
        protocol, endpoint = _check(wish, view)
        draft = self._draft(call, view, protocol, endpoint)
        if view.message_bytes_max > MESSAGE_BYTES_DEFAULT:
            await large_messages.check_subscriber(self._store, view.arn, protocol, endpoint)
        wanted = check_new(draft, wish.attributes, filter_limits(self._quotas))
        replay = wanted.pop(REPLAY_POLICY, "")
        draft = replace(draft, attributes=merged({}, wanted))
        check_stream(call, draft)
        if protocol in self._checks:
            await self._checks[protocol](endpoint)
        if replay:  # first: what is published meanwhile is not to come before what is replayed
            await self._replays.start(draft, view.topic, replay, AT_CREATION)
        subscription = await self._enter(call, draft)
        if subscription.id != draft.id:
            await self._replays.remove(draft.arn)
            if differs(subscription, wanted) or await self._replays.differs(subscription, wish.attributes):
                raise invalid_parameter(f"{AT_CREATION}Subscription already exists with different attributes")
            await self._ask_again(call, subscription)
        return PENDING if subscription.state is SubscriptionState.PENDING and not wish.return_arn else subscription.arn

    def _draft(self, call: Call, view: TopicView, protocol: str, endpoint: str) -> Subscription:
        """Who owns the endpoint needs no confirmation from it, and nobody else can remove the subscription."""
        caller = call.caller
        own = protocol in _NOT_ASKED or account_of(protocol, endpoint) == caller.account
        return Subscription(
            id=uuid_text(),
            topic_arn=view.arn,
            topic_id=view.topic.id,
            owner=caller.account,
            principal=caller.arn,
            protocol=protocol,
            endpoint=endpoint,
            state=SubscriptionState.CONFIRMED if own else SubscriptionState.PENDING,
            authenticated=own,
            created_ms=self._clock.now_ms(),
        )

    async def _enter(self, call: Call, subscription: Subscription) -> Subscription:
        await self._check_quotas(subscription)
        token = None
        if subscription.state is SubscriptionState.PENDING:
            token = self._confirmations.new_token(subscription)
            subscription = replace(subscription, expires_ms=token.expires_ms)
        entered = await self._store.create(subscription, token)
        if entered is None:
            raise no_such_topic()
        if token is not None and entered.id == subscription.id:
            await self._confirmations.send("SubscriptionConfirmation", subscription, token, call.base_url)
        return entered

    async def _check_quotas(self, subscription: Subscription) -> None:
        """One that is there already, and is only subscribed again, needs no room."""
        refusal = await self._refusal(subscription)
        if refusal is not None and await self._store.find_alike(subscription) is None:
            raise refusal

    async def _refusal(self, subscription: Subscription) -> RequestError | None:
        quotas = self._quotas
        counts = await self._store.counts(subscription.topic_arn)
        fifo = subscription.topic_arn.endswith(FIFO_SUFFIX)
        most = quotas.fifo_topic_subscriptions if fifo else quotas.topic_subscriptions
        full = counts.pending + counts.confirmed + counts.removed >= most
        if subscription.state is SubscriptionState.PENDING and not full:
            full = await self._store.count_pending(subscription.owner) >= quotas.pending_subscriptions
        if full:
            return RequestError("SubscriptionLimitExceeded", "Subscription limit exceeded")
        return None if await is_room_for(self._store, quotas, None, subscription) else limit_exceeded()

    async def _ask_again(self, call: Call, subscription: Subscription) -> None:
        """A new token for one that is not confirmed; those issued before stay good."""
        current = subscription
        for _ in range(UPDATE_TRIES_MAX):
            if current.state is SubscriptionState.CONFIRMED:
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


def _check(wish: Wish, view: TopicView) -> tuple[str, str]:
    """The protocol and the endpoint, as they are stored."""
    if not wish.endpoint:
        raise missing_parameter("Endpoint")
    protocol = check_protocol(wish.protocol)
    endpoint = check_endpoint(protocol, wish.endpoint)
    check_pairing(protocol, endpoint, fifo_topic=view.topic.name.endswith(FIFO_SUFFIX))
    return protocol, endpoint
