"""The pages of the receiver: results and commands, as JSON for programs and as HTML for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from cns_common.errors import RequestError
from cns_receiver.behaviour import QUERY_FIELDS_MAX, Behaviour, BehaviourSequence, parse_behaviour, parse_settings
from cns_receiver.confirm import Confirmer
from cns_receiver.endpoint import COUNTERS, Endpoint
from cns_receiver.endpoints import Endpoints, ReceiverResource
from cns_receiver.http_server import IncomingRequest, ReceiverAnswer, Reply, answer, json_answer

ROWS_MAX = 500
WAIT_S_MAX = 300.0

_STATUS_BY_CODE = {"TooManyEndpoints": 503}
_COLUMNS = ("received", "distinct_messages", "retries", "duplicates", "confirmed", "good", "bad", "unsigned")

Handler = Callable[[Endpoint, IncomingRequest, dict[str, str]], Reply]


class _ShowQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query of GET /endpoint/ID: `n` newest messages, and the longest wait for counters."""

    n: Annotated[int, Meta(ge=0, le=100_000)] = 20
    wait_s: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 0.0


class ReceiverPages:
    def __init__(
        self,
        endpoints: Endpoints,
        confirmer: Confirmer,
        make_sequence: Callable[[Behaviour], BehaviourSequence],
        forget: Callable[[Endpoint], None],
    ) -> None:
        self._endpoints = endpoints
        self._confirmer = confirmer
        self._sequence = make_sequence
        self._forget = forget
        self._template = Template(Path(__file__).with_name("receiver.html").read_text(encoding="utf-8"))
        self._plain_pages: dict[str, Callable[[], ReceiverAnswer]] = {"/": self._overview, "/health": _health}
        self._handlers: dict[str, dict[bytes, Handler]] = {
            "": {b"GET": self._show, b"DELETE": self._delete},
            "ids": {b"GET": self._ids},
            "behaviour": {b"GET": self._behaviour, b"PUT": self._set_behaviour, b"DELETE": self._reset_behaviour},
            "settings": {b"GET": self._settings, b"PUT": self._set_settings},
            "confirm": {b"POST": self._confirm},
        }

    def reply(self, resource: ReceiverResource, request: IncomingRequest) -> Reply:
        """Return the answer of a page, at once or as a coroutine. Raises RequestError."""
        method = b"GET" if request.method == b"HEAD" else request.method
        if not resource.name:
            return self._plain_page(resource.path, method)
        methods = self._handlers.get(resource.page, {})
        if not methods:
            return not_found()
        if method not in methods:
            allowed = b", ".join((*methods, *((b"POST",) if not resource.page else ()))).decode()
            return answer(405, headers=[("allow", allowed)])
        return methods[method](self._endpoints.get(resource.name), request, _fields(resource.query))

    # -- one endpoint -------------------------------------------------------------------------------------------------

    def _show(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> Reply:
        try:
            minimums = {name: int(query.pop(name)) for name in COUNTERS if name in query}
            options = msgspec.convert(query, _ShowQuery, strict=False)
        except ValueError as error:
            raise RequestError("InvalidQuery", str(error)) from error
        if minimums and options.wait_s:
            return self._show_when(endpoint, minimums, options)
        return _summary(endpoint, options)

    async def _show_when(self, endpoint: Endpoint, minimums: dict[str, int], options: _ShowQuery) -> ReceiverAnswer:
        await endpoint.wait(minimums, options.wait_s)
        return _summary(endpoint, options)

    def _delete(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        self._forget(endpoint)
        return answer(204)

    def _ids(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        ids = endpoint.id_counts.ids(accepted_only=query.get("accepted") == "true")
        return json_answer({"ids": ids, "forgotten": endpoint.id_counts.forgotten})

    def _behaviour(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        return json_answer(endpoint.sequence.now if endpoint.sequence else None)

    def _set_behaviour(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        endpoint.sequence = self._sequence(parse_behaviour(request.body))
        return answer(204)

    def _reset_behaviour(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        endpoint.sequence = None
        return answer(204)

    def _settings(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        return json_answer(endpoint.settings)

    def _set_settings(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        endpoint.settings = parse_settings(request.body)
        return answer(204)

    def _confirm(self, endpoint: Endpoint, request: IncomingRequest, query: dict[str, str]) -> ReceiverAnswer:
        self._confirmer.confirm_all(endpoint)
        return answer(202)

    # -- pages -------------------------------------------------------------------------------------------------------

    def _plain_page(self, path: str, method: bytes) -> ReceiverAnswer:
        if path not in self._plain_pages:
            return not_found()
        return self._plain_pages[path]() if method == b"GET" else answer(405, headers=[("allow", "GET")])

    def _overview(self) -> ReceiverAnswer:
        newest = sorted(self._endpoints, key=lambda endpoint: endpoint.last_ns, reverse=True)
        rows = "\n".join(_row(endpoint) for endpoint in newest[:ROWS_MAX])
        text = self._template.substitute(
            heads="".join(f"<th>{name.replace('_', ' ')}</th>" for name in _COLUMNS),
            rows=rows,
            shown="some" if rows else "none",
            more=f"and {len(newest) - ROWS_MAX} more" if len(newest) > ROWS_MAX else "",
        )
        return answer(200, text.encode(), "text/html; charset=utf-8")


def _health() -> ReceiverAnswer:
    return json_answer({"status": "green", "ready": True})


def not_found() -> ReceiverAnswer:
    return json_answer({"error": "NotFound", "message": "deliveries go to /endpoint/ID"}, 404)


def refusal(error: RequestError) -> ReceiverAnswer:
    status = _STATUS_BY_CODE.get(error.code, 400)
    return json_answer({"error": error.code, "message": error.message}, status)


def _summary(endpoint: Endpoint, options: _ShowQuery) -> ReceiverAnswer:
    return json_answer(endpoint.summary(options.n), indent=2)


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError as error:
        raise RequestError("InvalidQuery", str(error)) from error


def _row(endpoint: Endpoint) -> str:
    name = escape(endpoint.name)
    counts = "".join(f"<td>{COUNTERS[column](endpoint):,}</td>" for column in _COLUMNS)
    behaviour = endpoint.sequence.now if endpoint.sequence else None
    shown = msgspec.json.encode(behaviour).decode() if behaviour else "as in its URL"
    last = (
        datetime.fromtimestamp(endpoint.last_ns // 1_000_000_000, UTC).strftime("%H:%M:%S") if endpoint.last_ns else ""
    )
    return f'<tr><th><a href="/endpoint/{name}">{name}</a></th>{counts}<td>{last}</td><td>{escape(shown)}</td></tr>'
