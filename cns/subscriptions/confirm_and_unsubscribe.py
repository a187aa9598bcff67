"""ConfirmSubscription and Unsubscribe: two calls that need no signature, with what each allows without one."""

from __future__ import annotations

from msgspec.structs import replace

from cns.archives.replay_api import SubscriptionReplays
from cns.arns import topic_fault
from cns.authorization import Access, owns, unsigned
from cns.errors import concurrent_access, invalid_parameter, no_such_subscription, no_such_topic
from cns.limits import UPDATE_TRIES_MAX
from cns.protocols.table import find_protocol
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.confirmation_tokens import TOKEN_CHARS, Confirmations, is_well_formed
from cns.subscriptions.endpoint_syntax import account_of
from cns.subscriptions.subscription import ConfirmationToken, Subscription, SubscriptionState
from cns.topics.cache import TopicCache
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError

_IDS_MUST_MATCH = "To disallow anonymous unsubscription, subscriber and confirmer IDs must match"
_AUTHORIZED_ONLY = "This subscription may only be deleted by an authorized user."
_IS_PENDING = "Cannot unsubscribe a subscription that is pending confirmation"


class ConsentHandler:
    def __init__(
        self,
        store: SubscriptionStore,
        topics: TopicCache,
        access: Access,
        confirmations: Confirmations,
        clock: Clock,
        replays: SubscriptionReplays,
    ) -> None:
        self._store = store
        self._topics = topics
        self._access = access
        self._confirmations = confirmations
        self._clock = clock
        self._replays = replays

    # -- confirming ---------------------------------------------------------------------------------------------------

    async def confirm(self, call: Call, topic_arn: str, text: str, *, protect: bool) -> str:
        """Confirm (or restore) the subscription that the token stands for. Return its ARN.

        `topic_arn` may name any topic of the subscription's region. With `protect` only the subscription's owner may
        confirm, and afterwards nobody can remove the subscription without a signature.
        """
        if topic_fault(topic_arn, "Topic", "" if unsigned(call) else call.region) is not None:
            raise invalid_parameter("Topic")
        token = await self._read_token(text)
        for _ in range(UPDATE_TRIES_MAX):
            before = await self._find(token)
            if topic_fault(topic_arn, "Topic", before.region) is not None:  # an unsigned call has no region of its own
                raise invalid_parameter("Topic")
            await self._check_confirmation(call, before, protect=protect)
            after = replace(
                before,
                state=SubscriptionState.CONFIRMED,
                authenticated=before.authenticated or protect,
                confirmed_ms=before.confirmed_ms
                if before.state is SubscriptionState.CONFIRMED
                else self._clock.now_ms(),
                expires_ms=0,
            )
            if after == before:
                call.changed = False
                return before.arn
            if await self._store.replace(replace(after, version=before.version + 1), before.version, None):
                return before.arn
        raise concurrent_access()

    async def find_by_token(self, text: str) -> Subscription:
        """The subscription to which a token belongs."""
        return await self._find(await self._read_token(text))

    async def _read_token(self, text: str) -> ConfirmationToken:
        if not is_well_formed(text):
            raise RequestError("InvalidParameter", "Invalid token")  # AWS omits its usual prefix here
        token = await self._store.find_token(text) if len(text) <= TOKEN_CHARS else None
        if token is None or token.expires_ms <= self._clock.now_ms():
            raise invalid_parameter("Token")
        return token

    async def _find(self, token: ConfirmationToken) -> Subscription:
        found = await self._store.get([token.subscription_arn])
        if not found:
            raise no_such_subscription()
        return found[0]

    async def _check_confirmation(self, call: Call, subscription: Subscription, *, protect: bool) -> None:
        if subscription.state is SubscriptionState.PENDING:
            topic = await self._topics.find(subscription.topic_arn)
            if topic is None or topic.topic.id != subscription.topic_id:
                raise no_such_topic()
        if not protect:
            return
        if unsigned(call) or not owns(call, subscription.owner):
            raise RequestError("AuthorizationError", _IDS_MUST_MATCH)
        if subscription.state is SubscriptionState.CONFIRMED and subscription.authenticated:
            raise RequestError("AuthorizationError", "Subscription already confirmed")

    # -- unsubscribing ------------------------------------------------------------------------------------------------

    async def unsubscribe(self, call: Call, arn: str) -> ConfirmationToken | None:
        """Remove a subscription. Succeed if there is none.

        For the owner it is deleted. For others it is deactivated, the endpoint is sent a token that restores it, and
        that token is returned.
        """
        for _ in range(UPDATE_TRIES_MAX):
            subscription = await self._access.find_subscription(call, arn)
            if subscription is None:
                call.changed = False
                return None
            if subscription.state is SubscriptionState.PENDING:
                raise invalid_parameter(_IS_PENDING)
            if not unsigned(call) and owns(call, subscription.owner):
                await self._store.remove(arn)
                await self._replays.remove(arn)
                return None
            if not _may_deactivate(call, subscription):
                raise RequestError("AuthorizationError", _AUTHORIZED_ONLY)
            if subscription.state is SubscriptionState.REMOVED:
                call.changed = False
                return None
            token = await self._deactivate(call, subscription)
            if token is not None:
                return token
        raise concurrent_access()

    async def _deactivate(self, call: Call, subscription: Subscription) -> ConfirmationToken | None:
        """None if the subscription changed in the meantime."""
        token = self._confirmations.new_token(subscription)
        version = subscription.version
        removed = replace(
            subscription, state=SubscriptionState.REMOVED, expires_ms=token.expires_ms, version=version + 1
        )
        if not await self._store.replace(removed, version, token):
            return None
        await self._confirmations.send("UnsubscribeConfirmation", removed, token, call.base_url)
        return token


def _may_deactivate(call: Call, subscription: Subscription) -> bool:
    """Whether a caller who is not the subscription's owner may deactivate it.

    The link in a notification needs no signature, unless the subscription is protected. Subscriptions of protocols
    without links need the signature of the topic's owner or, if they are not protected, of the endpoint's owner.
    """
    protocol = find_protocol(subscription.protocol)
    if (protocol.web or protocol.mail) and not subscription.authenticated:
        return True
    if unsigned(call):
        return False
    own_endpoint = account_of(subscription.protocol, subscription.endpoint) == call.caller.account
    own_topic = subscription.topic_arn.split(":", 5)[4] == call.caller.account
    return own_topic or (own_endpoint and not subscription.authenticated)
