"""The app of the portal, mounted at `/portal`, at every address of the service."""

from __future__ import annotations

from fastapi import Request, Response

from cns_server.html_app import HtmlApp
from cns_server.pages.rendering import Templates
from cns_server.portal.pages import PortalPages, PortalParts
from cns_server.rest.problems import title_of


class PortalApp(HtmlApp):
    def __init__(self, parts: PortalParts, *, version: str) -> None:
        super().__init__()
        self._templates = Templates(version, referrer="no-referrer")
        PortalPages(parts, self._templates).add_to(self)

    async def failure_page(self, request: Request, status: int, code: str, detail: str) -> Response:
        values = {"title": title_of(code), "detail": detail, "back": status not in (403, 404)}
        return self._templates.page(request, "portal_failure.html", None, status, **values)
