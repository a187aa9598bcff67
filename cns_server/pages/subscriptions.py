"""Pages of one subscription: its state, its filter policy with a trial, what was delivered to it of late, links to the
portal."""

from __future__ import annotations

import json
from urllib.parse import quote

from fastapi import FastAPI, Request, Response

from cns.portal.links import LIFE_S_MAX
from cns.rest.models import MadePortalLink
from cns.subscriptions.subscription import PAUSED
from cns_backend.explain.causes import unprotected
from cns_server.pages.context import PageContext, done
from cns_server.pages.sources import EventReader
from cns_server.pages.topics import topic_path
from cns_server.pages.views import activity
from cns_server.pages.views.filter_trial import SCOPES, TRIAL_FIELDS, Trial, try_policy
from cns_server.rest.models import SubscriptionChange
from cns_server.rest.portal_links import NewPortalLink, PortalLinkRoutes
from cns_server.rest.problems import Problem
from cns_server.rest.topics import TopicRoutes

DAY_S = 86_400
LIFE_DAYS_MAX = LIFE_S_MAX // DAY_S
_EDITABLE = ("FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy", "DeliveryPolicy")


class SubscriptionPages:
    def __init__(self, context: PageContext, topics: TopicRoutes, links: PortalLinkRoutes, reader: EventReader) -> None:
        self._context = context
        self._topics = topics
        self._links = links
        self._reader = reader

    def add_to(self, app: FastAPI) -> None:
        subscription = "/topics/{name}/subscriptions/{subscription}"
        app.add_api_route(subscription, self.show, methods=["GET"])
        app.add_api_route(subscription + "/attributes", self.set_attribute, methods=["POST"])
        app.add_api_route(subscription + "/trial", self.try_filter, methods=["POST"])
        app.add_api_route(subscription + "/pause", self.pause, methods=["POST"])
        app.add_api_route(subscription + "/portal-links", self.make_link, methods=["POST"])
        app.add_api_route(subscription + "/portal-links/{link}/revoke", self.revoke_link, methods=["POST"])

    async def show(self, request: Request, name: str, subscription: str) -> Response:
        return await self._page(request, name, subscription, None, {})

    async def try_filter(self, request: Request, name: str, subscription: str) -> Response:
        """Shows whether a policy matches a message; changes nothing."""
        _, _, form = await self._context.posted(request)
        given = {field: form.text(field) for field in TRIAL_FIELDS}
        trial = try_policy(*[given[field] for field in TRIAL_FIELDS])
        return await self._page(request, name, subscription, trial, given)

    async def set_attribute(self, request: Request, name: str, subscription: str) -> Response:
        session, rest, form = await self._context.posted(request)
        change = SubscriptionChange(attributes={form.text("attribute").strip(): form.text("value").strip()})
        await self._topics.change_subscription(rest, session.account, name, subscription, change)
        return done(_path(name, subscription), "saved")

    async def pause(self, request: Request, name: str, subscription: str) -> Response:
        """Hold the subscription's messages, or send them again."""
        session, rest, form = await self._context.posted(request)
        paused = form.text("paused") == "true"
        change = SubscriptionChange(attributes={PAUSED: "true" if paused else "false"})
        await self._topics.change_subscription(rest, session.account, name, subscription, change)
        return done(_path(name, subscription), "paused" if paused else "resumed")

    async def make_link(self, request: Request, name: str, subscription: str) -> Response:
        """The answer shows the link, so it is no redirection."""
        session, rest, form = await self._context.posted(request)
        days = form.number("days") or 0
        if not 1 <= days <= LIFE_DAYS_MAX:
            raise Problem(400, "InvalidRequest", f"A link ends after 1 to {LIFE_DAYS_MAX} days.")
        wanted = NewPortalLink(life_seconds=days * DAY_S)
        made = await self._links.create_portal_link(rest, session.account, name, subscription, wanted)
        return await self._page(request, name, subscription, None, {}, made)

    async def revoke_link(self, request: Request, name: str, subscription: str, link: str) -> Response:
        session, rest = await self._context.confirmed(request)
        await self._links.revoke_portal_link(rest, session.account, name, subscription, link)
        return done(_path(name, subscription), "revoked")

    async def _page(
        self,
        request: Request,
        name: str,
        subscription: str,
        trial: Trial | None,
        given: dict[str, str],
        made: MadePortalLink | None = None,
    ) -> Response:
        session, rest = await self._context.call(request)
        shown = (await self._topics.show_subscription(rest, session.account, name, subscription)).attributes
        recent = await self._reader.recent(session)
        arn = shown["SubscriptionArn"]
        return self._context.page(
            request,
            "subscription.html",
            session,
            topic=name,
            id=subscription,
            attributes=shown,
            confirmed=shown.get("PendingConfirmation") != "true",
            figures=activity.figures(recent.events, subscription=arn),
            rows=activity.messages(recent.events, subscription=arn),
            since_ms=recent.since_ms,
            links=(await self._links.list_portal_links(rest, session.account, name, subscription)).links,
            made=made,
            days_max=LIFE_DAYS_MAX,
            paused=shown.get(PAUSED) == "true",
            unprotected=unprotected(shown.get("Protocol", ""), shown),
            trial=trial,
            given={**_example(shown), **given},
            scopes=SCOPES,
            editable=_EDITABLE,
        )


def _path(name: str, subscription: str) -> str:
    return f"{topic_path(name)}/subscriptions/{quote(subscription, safe='')}"


def _example(attributes: dict[str, str]) -> dict[str, str]:
    """The first contents of the trial's form: the subscription's policy."""
    policy = attributes.get("FilterPolicy", "")
    return {
        "policy": json.dumps(json.loads(policy), indent=1, ensure_ascii=False) if policy else "",
        "scope": attributes.get("FilterPolicyScope", SCOPES[0]),
        "attributes": "",
        "body": "",
    }
