"""The actions behind the links in mails: show, confirm, restore and remove a subscription, without a signature."""

from __future__ import annotations

from cns.arns import check_subscription_arn
from cns.errors import invalid_parameter
from cns.protocols.table import find_protocol
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.confirm_and_unsubscribe import ConsentHandler
from cns.subscriptions.subscription import ConfirmationToken, Subscription, SubscriptionState
from cns_common.aws.call import ANONYMOUS, Call
from cns_common.errors import RequestError
from cns_common.ids import uuid_text


class MailLinks:
    """Works only for subscriptions of mailboxes. Refuses others, and invalid links, with a RequestError."""

    def __init__(self, consent: ConsentHandler, subscriptions: SubscriptionStore) -> None:
        self._consent = consent
        self._subscriptions = subscriptions

    async def find_by_token(self, token: str) -> Subscription:
        """The subscription that a confirmation link names."""
        subscription = await self._consent.find_by_token(token)
        if not find_protocol(subscription.protocol).mail:
            raise invalid_parameter("Token")
        return subscription

    async def confirm(self, topic_arn: str, token: str) -> Subscription:
        """Confirm a pending subscription, or restore a removed one."""
        await self.find_by_token(token)
        await self._consent.confirm(_call(""), topic_arn, token, protect=False)
        return await self.find_by_token(token)

    async def find_removable(self, arn: str, address: str) -> Subscription | None:
        """The subscription that an unsubscribe link names, or None.

        Both ARN and address must match. Others may know an ARN, and must not learn by guessing.
        """
        check_subscription_arn(arn, "")
        found = await self._subscriptions.get([arn])
        if not found or found[0].endpoint != address:
            return None
        subscription = found[0]
        if not find_protocol(subscription.protocol).mail or subscription.authenticated:
            raise RequestError("AuthorizationError", "This subscription may only be deleted by an authorized user.")
        if subscription.state is SubscriptionState.PENDING:
            raise RequestError("InvalidState", "This subscription is not confirmed")
        return subscription

    async def unsubscribe(self, subscription: Subscription, base_url: str) -> ConfirmationToken | None:
        """Remove a subscription. Return a token that restores it, or None if it was removed before."""
        return await self._consent.unsubscribe(_call(base_url), subscription.arn)


def _call(base_url: str) -> Call:
    """An anonymous call: pages are opened without credentials, under --auth=off too."""
    return Call(caller=ANONYMOUS, region="", request_id=uuid_text(), base_url=base_url)
