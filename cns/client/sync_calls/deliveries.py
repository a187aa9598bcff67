# Generated from cns/client/async_calls by `make format`: change it there.
"""Calls for deliveries, subscriptions and filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cns.client.deliveries import (
    Deliveries,
    DeliveryRequests,
    FailureList,
    FilterVerdict,
    MadePortalLink,
    PortalLink,
    SubscriptionAttributes,
)
from cns.client.sync_calls.connection import Connection
from cns.client.values import SubscriptionArn

_NO_ATTRIBUTES: Mapping[str, Mapping[str, str]] = {}


class DeliveryCalls(Connection):
    def deliveries(
        self, topic: str = "", *, subscription: str = "", message: str = "", only_failures: bool = False
    ) -> Deliveries:
        """The newest deliveries of a topic, of one of its messages, or to a subscription (its ARN)."""
        return self._send(DeliveryRequests(self.account).deliveries(topic, subscription, message, only_failures))

    def failures(self, topic: str = "", *, subscription: str = "") -> FailureList:
        """The newest failures of a topic or a subscription (its ARN), by cause."""
        return self._send(DeliveryRequests(self.account).failures(topic, subscription))

    def explain_message(self, message: str, *, subscription: str = "") -> dict[str, Any]:
        """Return the fate of a published message, as `cns explain --json` prints it; for one subscription (its ARN)."""
        return self._send(DeliveryRequests(self.account).explanation(message, subscription))

    def test_filter(
        self,
        policy: Mapping[str, Any],
        *,
        message: str = "",
        attributes: Mapping[str, Mapping[str, str]] = _NO_ATTRIBUTES,
        scope: str = "MessageAttributes",
    ) -> FilterVerdict:
        """Whether a filter policy matches a message. An attribute is `{"dataType": …, "stringValue": …}`."""
        return self._send(DeliveryRequests(self.account).filter_test(policy, message, attributes, scope))

    def subscription_attributes(self, arn: str) -> SubscriptionAttributes:
        """A subscription's attributes, such as PendingConfirmation and FilterPolicy."""
        return self._send(DeliveryRequests(self.account).subscription(arn))

    def set_subscription_attributes(self, arn: str, attributes: Mapping[str, str]) -> SubscriptionAttributes:
        """Set attributes."""
        return self._send(DeliveryRequests(self.account).change_subscription(arn, attributes))

    def confirm_subscription(self, topic: str, token: str) -> SubscriptionArn:
        """Confirm a subscription with the token that its endpoint got."""
        return self._send(DeliveryRequests(self.account).confirm(topic, token))

    def unsubscribe(self, arn: str) -> None:
        """Delete a subscription."""
        self._send_optional(DeliveryRequests(self.account).unsubscribe(arn))

    def portal_links(self, arn: str) -> list[PortalLink]:
        """The links to the portal of a subscription that have not ended, without their URLs."""
        found = self._send(DeliveryRequests(self.account).portal_links(arn))
        return found.links

    def create_portal_link(self, arn: str, life_seconds: int | None = None) -> MadePortalLink:
        """A link for the owner of a subscription's endpoint, by default for a week."""
        return self._send(DeliveryRequests(self.account).create_portal_link(arn, life_seconds))

    def revoke_portal_link(self, arn: str, link: str) -> None:
        """End a link, by its id."""
        self._send_optional(DeliveryRequests(self.account).revoke_portal_link(arn, link))
