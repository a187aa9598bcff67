"""The pipeline's reports in the data directory, for operators: they are about all accounts."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI, Request, Response

from cns_server.pages.context import PageContext
from cns_server.pages.sources import PageSources
from cns_server.rest.problems import Problem

PAGE = "report.html"
REPORTS_SHOWN_MAX = 500
PAGE_BYTES_MAX = 64 * 1024 * 1024
_NAME = re.compile("[0-9A-Za-z][0-9A-Za-z_-]{0,79}")
_HEADERS = {
    # the page states the hashes of its own style and script; the sandbox gives it an origin of its own
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class ReportEntry(NamedTuple):
    name: str
    made_ms: int


class ReportPages:
    def __init__(self, context: PageContext, sources: PageSources) -> None:
        self._context = context
        self._directory = sources.settings.data / "pipeline" / "reports"

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/reports", self.list_reports, methods=["GET"])
        app.add_api_route("/reports/{name}", self.show, methods=["GET"])
        app.add_api_route("/reports/{name}/page", self.page, methods=["GET"])

    async def list_reports(self, request: Request) -> Response:
        session, rest = await self._context.call(request)
        self._context.check_operator(rest)
        reports = await asyncio.to_thread(_reports, self._directory)
        return self._context.page(request, "reports.html", session, reports=reports)

    async def show(self, request: Request, name: str) -> Response:
        session, rest = await self._context.call(request)
        self._context.check_operator(rest)
        self._file(name)
        return self._context.page(request, "report.html", session, name=name)

    async def page(self, request: Request, name: str) -> Response:
        """The report as it was written, in a sandbox: it reaches neither the session nor another host."""
        _, rest = await self._context.call(request)
        self._context.check_operator(rest)
        content = await asyncio.to_thread(_read, self._file(name))
        return Response(content, media_type="text/html; charset=utf-8", headers=_HEADERS)

    def _file(self, name: str) -> Path:
        file = self._directory / name / PAGE
        if _NAME.fullmatch(name) is None or not file.is_file():
            raise Problem(404, "NoSuchReport", "There is no such report.")
        return file


def _reports(directory: Path) -> list[ReportEntry]:
    """The reports, the newest first."""
    files = [file for file in directory.glob(f"*/{PAGE}") if _NAME.fullmatch(file.parent.name)]
    found = [ReportEntry(file.parent.name, int(file.stat().st_mtime * 1000)) for file in files]
    return sorted(found, key=lambda report: -report.made_ms)[:REPORTS_SHOWN_MAX]


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        content = opened.read(PAGE_BYTES_MAX + 1)
    if len(content) > PAGE_BYTES_MAX:
        raise Problem(413, "ReportTooLarge", f"The report is larger than {PAGE_BYTES_MAX} bytes: open its file.")
    return content
