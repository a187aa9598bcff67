"""The app of the pages, mounted at `/ui`."""

from __future__ import annotations

from typing import Protocol

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import Answer
from cns_server.html_app import HtmlApp
from cns_server.pages.accounts import AccountPages
from cns_server.pages.acts import ActPages
from cns_server.pages.context import PageContext
from cns_server.pages.dead_letters import DeadLetterPages
from cns_server.pages.endpoints import EndpointPages
from cns_server.pages.live import LiveStreams
from cns_server.pages.messages import MessagePages
from cns_server.pages.queues import QueuePages
from cns_server.pages.rendering import Templates
from cns_server.pages.reports import ReportPages
from cns_server.pages.service import ServicePages
from cns_server.pages.sessions import Sessions, SignInRequired
from cns_server.pages.sign_in import SignInPages
from cns_server.pages.sources import EventReader, PageSources
from cns_server.pages.subscriptions import SubscriptionPages
from cns_server.pages.topics import TopicPages
from cns_server.rest.app import RestApp
from cns_server.rest.problems import title_of


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
        self.add_exception_handler(SignInRequired, _sign_in_page)
        sessions = Sessions(rest.calls.authenticator, sources.backend.accounts, rest.clock)
        context = PageContext(rest.calls, sessions, self._templates, sources.access)
        reader, streams = EventReader(sources.settings), LiveStreams(context)
        groups: list[_Pages] = [
            SignInPages(sessions, rest.console_sign_in, self._templates, rest.calls),
            QueuePages(context, rest.queue_routes, rest.message_routes, sources, reader, streams),
            DeadLetterPages(context, rest.dead_letter_routes),
            TopicPages(context, rest.topic_routes, reader),
            SubscriptionPages(context, rest.topic_routes, rest.portal_link_routes, reader),
            AccountPages(context, rest.account_routes),
            MessagePages(context, sources, reader, rest.topic_routes),
            EndpointPages(context, sources),
            ReportPages(context, sources),
            ServicePages(context, sources, streams),
            ActPages(context, rest.act_routes),
        ]
        for group in groups:
            group.add_to(self)

    def landing(self, request: HttpRequest) -> Answer:
        """The answer to a browser that opens the port."""
        page = self._templates.landing(request.origin)
        headers = [header for header in page.raw_headers if header[0] != b"content-length"]
        return Answer(page.status_code, headers, bytes(page.body))

    def failure_page(self, request: Request, status: int, code: str, detail: str) -> Response:
        path = request.url.path
        back = path if request.method == "GET" else path.rpartition("/")[0] or "/ui/"
        values = {"title": title_of(code), "detail": detail, "back": "/ui/" if request.method == "GET" else back}
        return self._templates.page(request, "failure.html", None, status, **values)


async def _sign_in_page(_: Request, __: Exception) -> Response:
    return RedirectResponse("/ui/sign-in", 303)
