"""Deliveries, subscriptions and filters: how a message went on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cns.client.requests import ApiRequest, given
from cns.client.values import SubscriptionArn
from cns.rest.deliveries import Deliveries, Delivery, FailureList, Failures, FilterVerdict
from cns.rest.models import MadePortalLink, PortalLink, PortalLinkList, SubscriptionAttributes

__all__ = [
    "Deliveries",
    "Delivery",
    "DeliveryRequests",
    "FailureList",
    "Failures",
    "FilterVerdict",
    "MadePortalLink",
    "PortalLink",
    "PortalLinkList",
    "SubscriptionAttributes",
]


class DeliveryRequests:
    def __init__(self, account: str) -> None:
        self._account = f"/accounts/{account}"

    def _topic(self, topic: str, rest: str) -> str:
        return f"{self._account}/topics/{quote(topic, safe='')}{rest}"

    def _subscription(self, arn: str, rest: str = "") -> str:
        *_, account, topic, id_ = arn.split(":")
        return f"/accounts/{account}/topics/{quote(topic, safe='')}/subscriptions/{quote(id_, safe='')}{rest}"

    def deliveries(self, topic: str, subscription: str, message: str, only_failures: bool) -> ApiRequest[Deliveries]:
        if subscription:
            path = self._subscription(subscription, "/deliveries")
        else:
            path = self._topic(topic, f"/messages/{message}/deliveries" if message else "/deliveries")
        return ApiRequest("GET", path, Deliveries, given(onlyFailures="true" if only_failures else ""))

    def explanation(self, message: str, subscription: str) -> ApiRequest[dict[str, Any]]:
        path = f"{self._account}/messages/{quote(message, safe='')}"
        return ApiRequest("GET", path, dict[str, Any], given(subscription=subscription))

    def failures(self, topic: str, subscription: str) -> ApiRequest[FailureList]:
        path = self._subscription(subscription, "/failures") if subscription else self._topic(topic, "/failures")
        return ApiRequest("GET", path, FailureList)

    def filter_test(
        self,
        policy: Mapping[str, Any],
        message: str,
        attributes: Mapping[str, Mapping[str, str]],
        scope: str,
    ) -> ApiRequest[FilterVerdict]:
        body = {"policy": policy, "message": message, "attributes": attributes, "scope": scope}
        return ApiRequest("POST", f"{self._account}/filterTests", FilterVerdict, None, body)

    def subscription(self, arn: str) -> ApiRequest[SubscriptionAttributes]:
        return ApiRequest("GET", self._subscription(arn), SubscriptionAttributes)

    def change_subscription(self, arn: str, attributes: Mapping[str, str]) -> ApiRequest[SubscriptionAttributes]:
        body = {"attributes": attributes}
        return ApiRequest("PATCH", self._subscription(arn), SubscriptionAttributes, None, body)

    def unsubscribe(self, arn: str) -> ApiRequest[None]:
        return ApiRequest("DELETE", self._subscription(arn), type(None))

    def confirm(self, topic: str, token: str) -> ApiRequest[SubscriptionArn]:
        return ApiRequest("POST", self._topic(topic, "/confirmations"), SubscriptionArn, None, {"token": token})

    def portal_links(self, arn: str) -> ApiRequest[PortalLinkList]:
        return ApiRequest("GET", self._subscription(arn, "/portal-links"), PortalLinkList)

    def create_portal_link(self, arn: str, life_s: int | None) -> ApiRequest[MadePortalLink]:
        path = self._subscription(arn, "/portal-links")
        return ApiRequest("POST", path, MadePortalLink, None, given(lifeSeconds=life_s))

    def revoke_portal_link(self, arn: str, link: str) -> ApiRequest[None]:
        return ApiRequest("DELETE", self._subscription(arn, f"/portal-links/{quote(link, safe='')}"), type(None))
