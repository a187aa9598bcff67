"""The app of the pages, mounted at `/ui`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.errors import CnsError
from cns_server.html_app import HtmlApp
from cns_server.pages.accounts import AccountPages
from cns_server.pages.activity import ActPages
from cns_server.pages.context import Form, PageContext
from cns_server.pages.dead_letters import DeadLetterPages
from cns_server.pages.endpoints import EndpointPages
from cns_server.pages.messages import MessagePages
from cns_server.pages.queues import QueuePages
from cns_server.pages.rendering import Refused, Templates
from cns_server.pages.reports import ReportPages
from cns_server.pages.service import ServicePages
from cns_server.pages.sessions import Sessions, SignInRequired
from cns_server.pages.sign_in import SignInPages
from cns_server.pages.sources import EventReader, PageSources
from cns_server.pages.subscriptions import SubscriptionPages
from cns_server.pages.topics import TopicPages
from cns_server.rest.app import RestApp
from cns_server.rest.problems import Problem, title_of


class _Pages(Protocol):
    def add_to(self, app: FastAPI) -> None: ...


class PagesApp(HtmlApp):
    def __init__(
        self,
        rest: RestApp,
        sources: PageSources,
        *,
        version: str,
    ) -> None:
        super().__init__()
        self._templates = Templates(version)
        self.add_exception_handler(SignInRequired, self._sign_in_page)
        sessions = self._sessions = Sessions(rest.calls.authenticator, sources.backend.accounts, rest.clock)
        context = PageContext(rest.calls, sessions, self._templates, sources.access)
        reader = EventReader(sources.settings)
        groups: list[_Pages] = [
            SignInPages(sessions, rest.console_sign_in, self._templates, rest.calls),
            QueuePages(context, rest.queue_routes, rest.message_routes, sources, reader),
            DeadLetterPages(context, rest.dead_letter_routes),
            TopicPages(context, rest.topic_routes, reader),
            SubscriptionPages(context, rest.topic_routes, rest.portal_link_routes, reader),
            AccountPages(context, rest.account_routes),
            MessagePages(context, reader, rest.topic_routes, rest.queue_routes, rest.explanation_routes),
            EndpointPages(context, sources),
            ReportPages(context, sources),
            ServicePages(context, sources),
            ActPages(context, rest.act_routes),
        ]
        for group in groups:
            group.add_to(self)

    def landing(self, request: HttpRequest) -> HttpAnswer:
        """The answer to a browser that opens the port."""
        page = self._templates.landing(request.origin)
        headers = [header for header in page.raw_headers if header[0] != b"content-length"]
        return HttpAnswer(page.status_code, headers, bytes(page.body))

    async def failure_page(self, request: Request, status: int, code: str, detail: str) -> Response:
        """For a form the page that has it, filled in as before."""
        title, session = title_of(code), None
        form: Form | None = getattr(request.state, "form", None)
        if form is not None:
            refused = Refused(status, title, detail, request.scope["path"], form.text)
            for route, scope in self._pages_above(request):
                shown = Request({**request.scope, "method": "GET", "query_string": b"", "state": {"refused": refused}})
                with suppress(Problem, CnsError, SignInRequired):
                    page: Response = await route.endpoint(shown, **scope["path_params"])
                    return page
        with suppress(SignInRequired, CnsError):
            session = await self._sessions.find(request)
        return self._templates.page(request, "failure.html", session, status, title=title, detail=detail)

    async def _sign_in_page(self, request: Request, _: Exception) -> Response:
        """To the sign-in, and from there back to this page, or the one that has this form."""
        path = request.url.path
        if request.method != "GET":
            path = next((scope["path"] for _, scope in self._pages_above(request)), "/ui/")
        target = f"{path}?{request.url.query}" if request.url.query else path
        return RedirectResponse("/ui/sign-in" if path == "/ui/" else f"/ui/sign-in?{urlencode({'next': target})}", 303)

    def _pages_above(self, request: Request) -> Iterator[tuple[APIRoute, Scope]]:
        """The pages whose paths begin a form's path, the longest first."""
        path = request.scope["path"]
        while path.count("/") > 1:
            scope = {**request.scope, "method": "GET", "path": path, "path_params": {}}
            for route in self.routes:
                match, found = route.matches(scope)
                if isinstance(route, APIRoute) and match is Match.FULL:
                    yield route, {**scope, **found}
            path = path.rpartition("/")[0]
