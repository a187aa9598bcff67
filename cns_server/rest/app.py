"""The app of the REST API: its routes, its OpenAPI document, and a page to explore it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse
from starlette.routing import Route

from cns.portal.links import PortalLinks
from cns_backend.account_removal import AccountRemoval
from cns_backend.backend import Backend
from cns_server.lazy_app import LazyApp
from cns_server.paths import REST_PREFIX
from cns_server.rest.accounts import AccountRoutes
from cns_server.rest.activity import ActRoutes
from cns_server.rest.calls import RestCalls
from cns_server.rest.cursors import Cursors
from cns_server.rest.debug.routes import DebugRoutes
from cns_server.rest.deliveries.dead_letters import DeadLetterRoutes
from cns_server.rest.deliveries.explanation import ExplanationRoutes, SearchRoom
from cns_server.rest.deliveries.filter_test import FilterRoutes
from cns_server.rest.deliveries.routes import DeliveryRoutes, EventSource, RecentDeliveries
from cns_server.rest.explorer import add_explorer
from cns_server.rest.messages import MessageRoutes
from cns_server.rest.models import ProblemDetails
from cns_server.rest.permissions import PermissionRoutes
from cns_server.rest.portal_links import PortalLinkRoutes
from cns_server.rest.problem_handlers import add_problem_handlers
from cns_server.rest.problems import MEDIA_TYPE
from cns_server.rest.queues import QueueRoutes
from cns_server.rest.sign_in.console_sign_in import ConsoleSignIn
from cns_server.rest.sign_in.password_hash_limiter import NewPasswords, PasswordHashLimiter
from cns_server.rest.timed_route import TimedRoute, operation_id
from cns_server.rest.topics import TopicRoutes
from cqs.service import QueueService
from cqs.topic_sender import TopicSender

_SUMMARY = "Queues, topics and accounts over plain HTTP. The AWS protocols of this service do the same and more."
_PROBLEMS = {400: "Bad request", 401: "Not authenticated", 403: "Not allowed", 404: "No such resource"} | {
    409: "Conflict",
    413: "Too large",
    422: "Not possible",
    429: "Too many",
    503: "Try again",
}
_SECURITY: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token of POST /tokens, or an operator's token."},
    "accessKey": {"type": "http", "scheme": "basic", "description": "Key id and secret. Use TLS."},
    "signedUrl": {"type": "apiKey", "in": "query", "name": "auth"},
}


class Routes(Protocol):
    def add_to(self, router: APIRouter) -> None: ...


class RestApp(FastAPI):
    def __init__(
        self,
        calls: RestCalls,
        queues: QueueService,
        backend: Backend,
        searches: SearchRoom,
        portal_links: PortalLinks,
        acts: Path,
        *,
        receipt_key: bytes,
        version: str,
    ) -> None:
        """`acts` is the directory of the log of administrative acts."""
        super().__init__(
            title="CNS",
            version=version,
            summary=_SUMMARY,
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            generate_unique_id_function=operation_id,
            redirect_slashes=False,
        )
        self.state.calls = self.calls = calls
        clock = self.clock = backend.clock
        self.queue_routes = QueueRoutes(calls, queues)
        self.message_routes = MessageRoutes(calls, queues, Cursors(receipt_key))
        self.topic_routes = TopicRoutes(calls, TopicSender(queues))
        self.portal_link_routes = PortalLinkRoutes(calls, portal_links)
        turns = PasswordHashLimiter()
        self.console_sign_in = ConsoleSignIn(backend.accounts, calls.authenticator, turns)
        removal = AccountRemoval(backend, queues)
        self.account_routes = AccountRoutes(calls, backend.accounts, removal, NewPasswords(turns), clock)
        self.act_routes = ActRoutes(calls, acts)
        self.explanation_routes = ExplanationRoutes(calls, backend, searches)
        source = searches.source
        recent = RecentDeliveries(EventSource(source.directories[0], every_machine=not source.shared))
        self.dead_letter_routes = DeadLetterRoutes(
            calls, queues, self.queue_routes, self.message_routes, backend.subscriptions, recent
        )
        add_problem_handlers(self)
        groups: list[tuple[str, Routes]] = [
            ("queues", self.queue_routes),
            ("messages", self.message_routes),
            ("topics", self.topic_routes),
            ("dead letters", self.dead_letter_routes),
            ("deliveries", DeliveryRoutes(calls, recent)),
            ("deliveries", FilterRoutes(calls)),
            ("deliveries", self.explanation_routes),
            ("topics", self.portal_link_routes),
            ("permissions", PermissionRoutes(calls, clock)),
            ("accounts", self.account_routes),
            ("acts", self.act_routes),
            ("debug", DebugRoutes(calls, queues)),
        ]
        for tag, routes in groups:
            router = APIRouter(tags=[tag], responses=_problem_responses(), route_class=TimedRoute)
            routes.add_to(router)
            self.include_router(router)
        add_explorer(self)
        document = LazyApp(lambda: JSONResponse(self.openapi()))  # it takes half a second to make
        self.router.routes.append(Route("/openapi.json", document, methods=["GET"], include_in_schema=False))
        self._describe: Callable[[], dict[str, Any]] = super().openapi

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            document = self._describe()
            document["servers"] = [{"url": REST_PREFIX}]
            document["components"]["securitySchemes"] = _SECURITY
            document["security"] = [{name: []} for name in _SECURITY]
            self.openapi_schema = document
        return self.openapi_schema


def _problem_responses() -> dict[int | str, dict[str, Any]]:
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {
        status: {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}, "model": ProblemDetails}
        for status, text in _PROBLEMS.items()
    }
