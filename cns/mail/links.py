"""What the links in mails may do: show a subscription, confirm or restore it, unsubscribe. None needs a signature."""

from __future__ import annotations

from cns.arns import check_subscription_arn
from cns.errors import invalid_parameter
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.confirm_and_unsubscribe import Consent
from cns.subscriptions.subscription import MAIL_PROTOCOLS, ConfirmationToken, Subscription, SubscriptionState
from cns_common.aws.call import ANONYMOUS, Call
from cns_common.errors import RequestError
from cns_common.ids import uuid_text


class MailLinks:
    """For the subscriptions of mailboxes alone. What is wrong is a RequestError."""

    def __init__(self, consent: Consent, subscriptions: SubscriptionStore) -> None:
        self._consent = consent
        self._subscriptions = subscriptions

    async def asked(self, token: str) -> Subscription:
        """The one that a confirmation's link is about."""
        subscription = await self._consent.asked(token)
        if subscription.protocol not in MAIL_PROTOCOLS:
            raise invalid_parameter("Token")
        return subscription

    async def confirm(self, topic_arn: str, token: str) -> Subscription:
        """Or restore it."""
        await self.asked(token)
        await self._consent.confirm(_call(""), topic_arn, token, protect=False)
        return await self.asked(token)

    async def removable(self, arn: str, address: str) -> Subscription | None:
        """The one that an unsubscribe link is about. None unless there is one that it names as mails do, by both: an
        ARN alone may be known to others, and whoever guesses learns nothing."""
        check_subscription_arn(arn, "")
        found = await self._subscriptions.get([arn])
        if not found or found[0].endpoint != address:
            return None
        subscription = found[0]
        if subscription.protocol not in MAIL_PROTOCOLS or subscription.authenticated:
            raise RequestError("AuthorizationError", "This subscription may only be deleted by an authorized user.")
        if subscription.state is SubscriptionState.PENDING:
            raise RequestError("InvalidState", "This subscription is not confirmed")
        return subscription

    async def unsubscribe(self, subscription: Subscription, base_url: str) -> ConfirmationToken | None:
        """The token that takes it back, unless it was unsubscribed before."""
        return await self._consent.unsubscribe(_call(base_url), subscription.arn)


def _call(base_url: str) -> Call:
    """Nobody's: a page is opened without credentials under --auth=off as well."""
    return Call(caller=ANONYMOUS, region="", request_id=uuid_text(), base_url=base_url)
