"""The page of endpoints that are down: circuit breakers with their cause, and a probe at once; observed health."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fastapi import FastAPI, Request, Response

from cns.delivery.failure_causes import failure_text
from cns_backend.stores.contract import OpenBreaker
from cns_common.endpoint_health import FILE_NAME, EndpointHealth, read_endpoint_health
from cns_server.pages.context import PageContext, done, is_topic
from cns_server.pages.sessions import Session
from cns_server.pages.sources import PageSources
from cns_server.rest.calls import RestCall
from cns_server.rest.problems import Problem


class BreakerRow(NamedTuple):
    """An endpoint's circuit breakers in all workers. Times are the service's."""

    account: str
    endpoint: str
    since_ms: int
    probe_at_ms: int
    cause: str
    workers: int


class EndpointPages:
    def __init__(self, context: PageContext, sources: PageSources) -> None:
        self._context = context
        self._control = sources.backend.control
        self._clock = sources.backend.clock
        self._health_file = sources.settings.data / "pipeline" / "health" / FILE_NAME

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/endpoints", self.show, methods=["GET"])
        app.add_api_route("/endpoints/probe", self.probe, methods=["POST"])

    async def show(self, request: Request) -> Response:
        session, rest = await self._context.call(request)
        return self._context.page(
            request,
            "endpoints.html",
            session,
            rows=await self._breakers(session, rest),
            failure_text=failure_text,
            health=self._health() if session.principal.operator else None,
            now_ms=self._clock.now_ms(),
        )

    async def probe(self, request: Request) -> Response:
        """Let a worker try the endpoint now instead of at its next time. A caller may probe endpoints of its own
        account only, an operator all."""
        session, rest, form = await self._context.posted(request)
        account, endpoint = form.text("account"), form.text("endpoint")
        if not any((row.account, row.endpoint) == (account, endpoint) for row in await self._breakers(session, rest)):
            raise Problem(404, "NoSuchBreaker", "The endpoint has no open circuit breaker any more.")
        await self._context.act(rest, "ProbeEndpoint", self._control.ask_probe(account, endpoint), endpoint)
        return done("/ui/endpoints", "probed")

    async def _breakers(self, session: Session, rest: RestCall) -> list[BreakerRow]:
        """The open circuit breakers of endpoints that failed for a topic whose deliveries the caller may see; of all
        accounts for an operator."""
        reports = (await self._control.state()).reports
        found = [breaker for report in reports for breaker in report.breakers]
        if not session.principal.operator:
            own = [breaker for breaker in found if breaker.account == session.account]
            found = [breaker for breaker in own if await self._sees(rest, breaker)]
        return _rows(found)

    async def _sees(self, rest: RestCall, breaker: OpenBreaker) -> bool:
        if not breaker.topics:  # reported by an older version
            return rest.call.caller.root
        return any([is_topic(arn) and await self._context.sees_deliveries(rest, arn) for arn in breaker.topics])

    def _health(self) -> EndpointHealth | None:
        """The health of endpoints that the pipeline wrote; None if there is none, or this version cannot read it."""
        try:
            return read_endpoint_health(self._health_file)
        except (OSError, ValueError):
            return None


def _rows(breakers: Iterable[OpenBreaker]) -> list[BreakerRow]:
    rows: dict[tuple[str, str], BreakerRow] = {}
    for one in breakers:
        key = one.account, one.endpoint
        before = rows.get(key)
        rows[key] = BreakerRow(
            *key,
            since_ms=one.since_ms if before is None else min(one.since_ms, before.since_ms),
            probe_at_ms=one.probe_at_ms if before is None else min(one.probe_at_ms, before.probe_at_ms),
            cause=one.cause,
            workers=1 if before is None else before.workers + 1,
        )
    return sorted(rows.values(), key=lambda row: row.since_ms)
