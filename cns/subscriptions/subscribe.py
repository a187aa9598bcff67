"""Subscribe: add an endpoint to a topic, and ask it for confirmation unless it belongs to the subscriber."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from cns.archives.replay_api import SubscriptionReplays
from cns.archives.replay_policy import REPLAY_POLICY
from cns.authorization import Access
from cns.errors import AT_CREATION, invalid_parameter, missing_parameter, no_such_topic
from cns.limits import FIFO_SUFFIX, MESSAGE_BYTES_DEFAULT, Quotas
from cns.protocols.contract import SubscribeCheck
from cns.protocols.table import find_protocol
from cns.push.endpoints import MobileEndpoints
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.attributes import check_firehose_role, check_new, differs, merge
from cns.subscriptions.confirmation_tokens import Confirmations
from cns.subscriptions.endpoint_syntax import account_of, check_endpoint, check_pairing, check_protocol
from cns.subscriptions.quotas import check_new_subscription, filter_limits
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics import large_messages
from cns.topics.cache import TopicView
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import uuid_text

EndpointCheck = Callable[[Subscription], Awaitable[None]]
"""Raises if the endpoint of the draft may not be subscribed."""

PENDING = "pending confirmation"


@dataclass(frozen=True, slots=True)
class UrlChecks:
    """`address` tells why a URL may not be subscribed, or None; `is_unreachable`, if it is asked, whether nothing
    listens there."""

    address: Callable[[str], Awaitable[str | None]]
    is_unreachable: Callable[[str], Awaitable[bool]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    topic_arn: str
    protocol: str
    endpoint: str
    attributes: Mapping[str, str]
    return_arn: bool


class SubscribeHandler:
    def __init__(
        self,
        store: SubscriptionStore,
        access: Access,
        confirmations: Confirmations,
        clock: Clock,
        quotas: Quotas,
        replays: SubscriptionReplays,
        checks: Mapping[SubscribeCheck, EndpointCheck],
    ) -> None:
        """`checks` has further checks of endpoints."""
        self._store = store
        self._access = access
        self._confirmations = confirmations
        self._clock = clock
        self._quotas = quotas
        self._replays = replays
        self._checks = checks

    async def subscribe(self, call: Call, request: SubscribeRequest) -> str:
        """Return the subscription's ARN, or PENDING if it waits for confirmation.

        A topic has one subscription for each protocol and endpoint. One that exists must not differ in any attribute
        that is given.
        """
        view = await self._access.find_topic(call, request.topic_arn, "Subscribe")
        facts = {"sns:Protocol": request.protocol, "sns:Endpoint": request.endpoint}
        self._access.authorise(call, view, "Subscribe", facts)
        protocol, endpoint = _check(request, view)
        draft = self._draft(call, view, protocol, endpoint)
        if view.message_bytes_max > MESSAGE_BYTES_DEFAULT:
            await large_messages.check_subscriber(self._store, view.arn, protocol, endpoint)
        wanted = check_new(draft, request.attributes, filter_limits(self._quotas))
        replay = wanted.pop(REPLAY_POLICY, "")
        draft = replace(draft, attributes=merge({}, wanted))
        check_firehose_role(call, draft)
        check = find_protocol(protocol).subscribe_check
        if check is not None:
            await self._checks[check](draft)
        if replay:  # first, so that no new message is delivered before the replayed ones
            await self._replays.start(draft, view.topic, replay, AT_CREATION)
        subscription = await self._enter(call, draft)
        if subscription.id != draft.id:
            await self._replays.remove(draft.arn)
            if differs(subscription, wanted) or await self._replays.differs(subscription, request.attributes):
                raise invalid_parameter(f"{AT_CREATION}Subscription already exists with different attributes")
            await self._send_again(call, subscription, draft)
        return (
            PENDING if subscription.state is SubscriptionState.PENDING and not request.return_arn else subscription.arn
        )

    def _draft(self, call: Call, view: TopicView, protocol: str, endpoint: str) -> Subscription:
        """The owner of an endpoint needs no confirmation, and nobody else can remove the subscription."""
        caller = call.caller
        own = not find_protocol(protocol).confirms or account_of(protocol, endpoint) == caller.account
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
        await check_new_subscription(self._store, self._quotas, subscription)
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

    async def _send_again(self, call: Call, subscription: Subscription, draft: Subscription) -> None:
        """Send a new token if the caller does not own the endpoint. Earlier tokens stay valid."""
        asked = find_protocol(draft.protocol).asked_each_time
        settled = subscription.state is SubscriptionState.CONFIRMED and not asked
        if draft.state is SubscriptionState.CONFIRMED or settled:
            call.changed = False
            return
        token = await self._confirmations.issue(self._store, subscription.arn)
        if token is not None:
            await self._confirmations.send("SubscriptionConfirmation", subscription, token, call.base_url)


def _check(request: SubscribeRequest, view: TopicView) -> tuple[str, str]:
    """Check protocol and endpoint. Return both in the form to store."""
    if not request.endpoint:
        raise missing_parameter("Endpoint")
    protocol = check_protocol(request.protocol)
    endpoint = check_endpoint(protocol, request.endpoint)
    check_pairing(protocol, endpoint, fifo_topic=view.topic.name.endswith(FIFO_SUFFIX))
    return protocol, endpoint


def endpoint_checks(
    urls: UrlChecks, phones: MobileEndpoints, store: SubscriptionStore
) -> Mapping[SubscribeCheck, EndpointCheck]:
    """The checks that need more than the text of an endpoint."""

    async def check_address(draft: Subscription) -> None:
        reason = await urls.address(draft.endpoint)
        if reason is not None:
            raise RequestError("AuthorizationError", reason)

    async def check_url(draft: Subscription) -> None:
        await check_address(draft)
        if urls.is_unreachable is None or await store.find_same_endpoint(draft) is not None:
            return  # a subscription that exists is answered again, whether its consumer runs or not
        if await urls.is_unreachable(draft.endpoint):
            raise invalid_parameter("Unreachable Endpoint")

    async def check_application(draft: Subscription) -> None:
        if await phones.look_up(draft.endpoint) is None:
            # AWS's text repeats "arn": once as a word, once as the start of the ARN.
            raise invalid_parameter(f"Endpoint Reason: Endpoint does not exist for endpoint arn{draft.endpoint}")

    return {
        SubscribeCheck.URL: check_url,
        SubscribeCheck.ADDRESS: check_address,
        SubscribeCheck.MOBILE_ENDPOINT: check_application,
    }
