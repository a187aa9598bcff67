"""The app of the portal, mounted at `/portal`, at every address of the service."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from cns_common.errors import CnsError
from cns_server.pages.app import STATIC
from cns_server.pages.rendering import Templates
from cns_server.portal.pages import PortalPages, PortalParts
from cns_server.rest.problems import Problem, status_and_text, title_of


class PortalApp(FastAPI):
    def __init__(self, parts: PortalParts, *, version: str) -> None:
        super().__init__(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        self._templates = Templates(version, referrer="no-referrer")
        PortalPages(parts, self._templates).add_to(self)
        self.mount("/static", StaticFiles(directory=STATIC), name="static")
        self._add_failures()

    def _add_failures(self) -> None:
        """Errors as pages."""

        @self.exception_handler(Problem)
        @self.exception_handler(CnsError)
        async def refused(request: Request, error: CnsError | Problem) -> Response:
            return self._failure(request, *status_and_text(error))

        @self.exception_handler(RequestValidationError)
        async def invalid(request: Request, _: RequestValidationError) -> Response:
            return self._failure(request, 400, "InvalidRequest", "The request is not one that these pages send.")

        @self.exception_handler(HTTPException)
        async def routing(request: Request, error: HTTPException) -> Response:
            return self._failure(request, error.status_code, "NotFound", "There is no such page.")

    def _failure(self, request: Request, status: int, code: str, detail: str) -> Response:
        values = {"title": title_of(code), "detail": detail, "back": status not in (403, 404)}
        return self._templates.page(request, "portal_failure.html", None, status, **values)
