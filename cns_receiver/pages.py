"""What can be read of the fault receiver and commanded to it, by programs and by people."""

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
from cns_receiver.behaviour import QUERY_FIELDS_MAX, Behaviour, Script, behaviour_of_json, settings_of_json
from cns_receiver.confirm import Confirmer
from cns_receiver.endpoints import Endpoints, Place
from cns_receiver.http_server import Answer, Reply, Request, answer, json_answer
from cns_receiver.mailbox import COUNTERS, Mailbox

ROWS_MAX = 500
WAIT_S_MAX = 300.0

_STATUS_OF_FAULT = {"TooManyEndpoints": 503}
_COLUMNS = ("received", "distinct_messages", "retries", "duplicates", "confirmed", "good", "bad", "unsigned")

Handler = Callable[[Mailbox, Request, dict[str, str]], Reply]


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    """How much of an endpoint to show, and how long to wait for what."""

    n: Annotated[int, Meta(ge=0, le=100_000)] = 20
    wait_s: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 0.0


class Pages:
    def __init__(
        self,
        endpoints: Endpoints,
        confirmer: Confirmer,
        script_of: Callable[[Behaviour], Script],
        forget: Callable[[Mailbox], None],
    ) -> None:
        self._endpoints = endpoints
        self._confirmer = confirmer
        self._script_of = script_of
        self._forget = forget
        self._template = Template(Path(__file__).with_name("receiver.html").read_text(encoding="utf-8"))
        self._plain_pages: dict[str, Callable[[], Answer]] = {"/": self._overview, "/health": _health}
        self._handlers: dict[str, dict[bytes, Handler]] = {
            "": {b"GET": self._show, b"DELETE": self._delete},
            "ids": {b"GET": self._ids},
            "behaviour": {b"GET": self._behaviour, b"PUT": self._behave, b"DELETE": self._behave_well},
            "settings": {b"GET": self._settings, b"PUT": self._set},
            "confirm": {b"POST": self._confirm},
        }

    def reply(self, place: Place, request: Request) -> Reply:
        """Raises RequestError."""
        method = b"GET" if request.method == b"HEAD" else request.method
        if not place.name:
            return self._plain_page(place.path, method)
        methods = self._handlers.get(place.page, {})
        if not methods:
            return not_found()
        if method not in methods:
            allowed = b", ".join((*methods, *((b"POST",) if not place.page else ()))).decode()
            return answer(405, headers=[("allow", allowed)])
        return methods[method](self._endpoints.mailbox(place.name), request, _fields(place.query))

    # -- one endpoint -------------------------------------------------------------------------------------------------

    def _show(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Reply:
        try:
            wanted = {name: int(query.pop(name)) for name in COUNTERS if name in query}
            question = msgspec.convert(query, _Question, strict=False)
        except ValueError as error:
            raise RequestError("InvalidQuery", str(error)) from error
        if wanted and question.wait_s:
            return self._show_when(mailbox, wanted, question)
        return _summary(mailbox, question)

    async def _show_when(self, mailbox: Mailbox, wanted: dict[str, int], question: _Question) -> Answer:
        await mailbox.wait(wanted, question.wait_s)
        return _summary(mailbox, question)

    def _delete(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        self._forget(mailbox)
        return answer(204)

    def _ids(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        ids = mailbox.tally.ids(accepted_only=query.get("accepted") == "true")
        return json_answer({"ids": ids, "forgotten": mailbox.tally.forgotten})

    def _behaviour(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        return json_answer(mailbox.script.now if mailbox.script else None)

    def _behave(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        mailbox.script = self._script_of(behaviour_of_json(request.body))
        return answer(204)

    def _behave_well(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        mailbox.script = None
        return answer(204)

    def _settings(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        return json_answer(mailbox.settings)

    def _set(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        mailbox.settings = settings_of_json(request.body)
        return answer(204)

    def _confirm(self, mailbox: Mailbox, request: Request, query: dict[str, str]) -> Answer:
        self._confirmer.visit_all(mailbox)
        return answer(202)

    # -- all ----------------------------------------------------------------------------------------------------------

    def _plain_page(self, path: str, method: bytes) -> Answer:
        if path not in self._plain_pages:
            return not_found()
        return self._plain_pages[path]() if method == b"GET" else answer(405, headers=[("allow", "GET")])

    def _overview(self) -> Answer:
        newest = sorted(self._endpoints, key=lambda mailbox: mailbox.last_ns, reverse=True)
        rows = "\n".join(_row(mailbox) for mailbox in newest[:ROWS_MAX])
        text = self._template.substitute(
            heads="".join(f"<th>{name.replace('_', ' ')}</th>" for name in _COLUMNS),
            rows=rows,
            shown="some" if rows else "none",
            more=f"and {len(newest) - ROWS_MAX} more" if len(newest) > ROWS_MAX else "",
        )
        return answer(200, text.encode(), "text/html; charset=utf-8")


def _health() -> Answer:
    return json_answer({"status": "green", "ready": True})


def not_found() -> Answer:
    return json_answer({"error": "NotFound", "message": "deliveries go to /endpoint/ID"}, 404)


def refusal(error: RequestError) -> Answer:
    status = _STATUS_OF_FAULT.get(error.code, 400)
    return json_answer({"error": error.code, "message": error.message}, status)


def _summary(mailbox: Mailbox, question: _Question) -> Answer:
    return json_answer(mailbox.summary(question.n), indent=2)


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError as error:
        raise RequestError("InvalidQuery", str(error)) from error


def _row(mailbox: Mailbox) -> str:
    name = escape(mailbox.name)
    counts = "".join(f"<td>{COUNTERS[column](mailbox):,}</td>" for column in _COLUMNS)
    behaviour = mailbox.script.now if mailbox.script else None
    doing = msgspec.json.encode(behaviour).decode() if behaviour else "as its URL says"
    last = datetime.fromtimestamp(mailbox.last_ns // 1_000_000_000, UTC).strftime("%H:%M:%S") if mailbox.last_ns else ""
    return f'<tr><th><a href="/endpoint/{name}">{name}</a></th>{counts}<td>{last}</td><td>{escape(doing)}</td></tr>'
