"""Portal links: a caller that may change a subscription gives the owner of its endpoint a link to the portal."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Path, Response
from pydantic import Field

from cns.portal.links import ACTION, LIFE_S_DEFAULT, LIFE_S_MAX, PortalLinks
from cns.portal.links import PortalLink as StoredLink
from cns.rest.models import MadePortalLink, PortalLink, PortalLinkList
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.models import Wire
from cns_server.rest.queues import AccountId
from cns_server.rest.topics import SubscriptionId, TopicName

OPEN_PATH = "/portal/open"
LINK_PARAMETER = "link"
LinkId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


class NewPortalLink(Wire):
    life_seconds: Annotated[int, Field(ge=1, le=LIFE_S_MAX)] = LIFE_S_DEFAULT


class PortalLinkRoutes:
    def __init__(self, calls: RestCalls, links: PortalLinks) -> None:
        self._calls = calls
        self._links = links

    def add_to(self, router: APIRouter) -> None:
        links = "/accounts/{account}/topics/{topic}/subscriptions/{subscription}/portal-links"
        add = router.add_api_route
        add(links, self.list_portal_links, methods=["GET"], response_model=PortalLinkList)
        add(links, self.create_portal_link, methods=["POST"], status_code=201, response_model=MadePortalLink)
        add(links + "/{link}", self.revoke_portal_link, methods=["DELETE"], status_code=204, response_class=Response)

    async def list_portal_links(
        self, rest: Begun, account: AccountId, topic: TopicName, subscription: SubscriptionId
    ) -> PortalLinkList:
        """The subscription's links to the portal, without their URLs."""
        self._check(rest, account)
        found = await self._links.list_links(rest.call, _arn(rest, account, topic, subscription))
        return PortalLinkList(links=[_link(one) for one in found])

    async def create_portal_link(
        self, rest: Begun, account: AccountId, topic: TopicName, subscription: SubscriptionId, body: NewPortalLink
    ) -> MadePortalLink:
        """A link with which the owner of the endpoint sees the subscription's deliveries, retries failed ones, pauses
        and resumes them, and rotates the webhook secret. It opens nothing else. It ends with the access key that made
        it, and no later than the token."""
        arn = _arn(rest, account, topic, subscription)
        async with self._calls.refusals(rest, "cns:CreatePortalLink", arn):
            self._check(rest, account)
        grant = rest.principal.grant
        until_ms = None if grant is None or grant.session else grant.expires_s * 1000  # never longer than the token
        work = self._links.create(rest.call, arn, body.life_seconds, until_ms)
        made = await self._calls.act(rest, "CreatePortalLink", work, arn, lambda made: f"link {made.link.id}")
        query = urlencode({LINK_PARAMETER: made.token})
        url = f"{rest.service_url}{OPEN_PATH}?{query}"
        return MadePortalLink(**msgspec.structs.asdict(_link(made.link)), url=url)

    async def revoke_portal_link(
        self, rest: Begun, account: AccountId, topic: TopicName, subscription: SubscriptionId, link: LinkId
    ) -> None:
        """End a link, and the sessions that it started."""
        arn = _arn(rest, account, topic, subscription)
        async with self._calls.refusals(rest, "cns:RevokePortalLink", arn):
            self._check(rest, account)
        await self._calls.act(rest, "RevokePortalLink", self._links.revoke(rest.call, arn, link), arn, f"link {link}")

    def _check(self, rest: RestCall, account: str) -> None:
        """Raise Problem if the principal's grant does not allow links."""
        self._calls.check(rest, f"sns:{ACTION}", account=account)


def _arn(rest: RestCall, account: str, topic: str, subscription: str) -> str:
    return f"{rest.topic_arn(account, topic)}:{subscription}"


def _link(link: StoredLink) -> PortalLink:
    return PortalLink(id=link.id, created_at=link.created_ms, expires_at=link.expires_ms, made_by=link.made_by)
