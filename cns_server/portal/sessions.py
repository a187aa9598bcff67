"""Visits of the portal: a link is exchanged for a cookie that is sent to `/portal` only, and ends with the link."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request, Response

from cns.portal.links import OpenedLink, PortalLinks
from cns.subscriptions.subscription import Subscription
from cns_common.clock import Clock
from cns_server.pages.sessions import form_token
from cns_server.paths import PORTAL_PREFIX
from cns_server.rest.problems import Problem

COOKIE = "cns_portal"
VISIT_S_MAX = 12 * 3_600
"""The longest visit. It may end earlier with its link; the link begins another one."""
_PURPOSE = b"cns-portal-form"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A visit that is valid now. Every form of its pages sends `form_token` back."""

    opened: OpenedLink
    form_token: str

    @property
    def subscription(self) -> Subscription:
        return self.opened.subscription


class Visits:
    def __init__(self, links: PortalLinks, clock: Clock) -> None:
        self._links = links
        self._clock = clock

    async def begin(self, token: str, response: Response, *, secure: bool) -> None:
        """Set the cookie. The browser sends it with the redirection that follows a link in a mail, so it is `lax`; acts
        need the form's token. Raises Problem 403."""
        opened = await self._find(token)
        left_s = (opened.link.expires_ms - self._clock.now_ms()) // 1000
        life_s = max(min(left_s, VISIT_S_MAX), 1)
        response.set_cookie(COOKIE, token, life_s, path=PORTAL_PREFIX, secure=secure, httponly=True, samesite="lax")

    async def find(self, request: Request) -> Visit:
        """The visit of a request. Raises Problem 403."""
        token = request.cookies.get(COOKIE, "")
        return Visit(opened=await self._find(token), form_token=form_token(token, _PURPOSE))

    def end(self, response: Response) -> None:
        response.delete_cookie(COOKIE, path=PORTAL_PREFIX)

    async def _find(self, token: str) -> OpenedLink:
        opened = await self._links.open(token) if token else None
        if opened is None:
            text = "The link has ended or is not valid. Ask for another where you got it."
            raise Problem(403, "LinkNotValid", text)
        return opened
