"""An app of pages for people: its style sheet, and errors as pages. The pages and the portal are such apps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from cns_common.errors import CnsError
from cns_server.rest.problems import Problem, status_and_text

STATIC = Path(__file__).parent / "pages" / "static"
_INVALID = "The request is not one that these pages send."


class HtmlApp(FastAPI, ABC):
    def __init__(self) -> None:
        super().__init__(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        self.mount("/static", StaticFiles(directory=STATIC), name="static")
        self._add_failures()

    @abstractmethod
    async def failure_page(self, request: Request, status: int, code: str, detail: str) -> Response:
        """The page of an error."""

    def _add_failures(self) -> None:
        @self.exception_handler(Problem)
        @self.exception_handler(CnsError)
        async def refused(request: Request, error: CnsError | Problem) -> Response:
            return await self.failure_page(request, *status_and_text(error))

        @self.exception_handler(RequestValidationError)
        async def invalid(request: Request, _: RequestValidationError) -> Response:
            return await self.failure_page(request, 400, "InvalidRequest", _INVALID)

        @self.exception_handler(HTTPException)
        async def routing(request: Request, error: HTTPException) -> Response:
            if error.status_code == 404:
                return await self.failure_page(request, 404, "NotFound", "There is no such page.")
            return await self.failure_page(request, error.status_code, "InvalidRequest", _INVALID)
