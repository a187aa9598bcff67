"""Renders the templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup, escape

from cns.delivery.failure_causes import NO_POLICY
from cns_backend.explain.causes import NO_DEAD_LETTER_QUEUE
from cns_backend.explain.labels import span_text
from cns_server.pages.sessions import FormSession

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
NOTICES = {
    "created": "Created.",
    "deleted": "Deleted.",
    "purged": "All messages are deleted.",
    "sent": "The message is sent.",
    "published": "The message is published.",
    "saved": "Saved.",
    "probed": "The next send probes the endpoint.",
    "resized": "The workers follow within a second or two.",
    "cancelled": "The redrive is being cancelled. What it has moved stays moved.",
    "redrive": "The redrive has begun.",
    "subscribed": "Subscribed. HTTP and e-mail endpoints must confirm.",
    "refused": f"Subscribed, but nothing will arrive: {NO_POLICY.title}. {NO_POLICY.advice}",
    "unprotected": f"Subscribed. The endpoint must confirm it. It has {NO_DEAD_LETTER_QUEUE.title}.",
    "unsubscribed": "The subscription is deleted.",
    "paused": "Deliveries are paused. Messages are kept for 14 days.",
    "resumed": "Deliveries are resumed: what was kept is sent now.",
    "retried": "The message is sent again. It shows here when it was tried.",
    "revoked": "The link is revoked. Whoever used it is out.",
}
_CODE = re.compile("`([^`]*)`")


class Refused(NamedTuple):
    """A refused form, which the page shows again."""

    status: int
    title: str
    detail: str
    path: str
    text: Callable[[str], str]  # of the form's fields


class Templates:
    def __init__(self, version: str, referrer: str = "same-origin") -> None:
        """`referrer` is the policy of the pages' links."""
        self._headers = {**_HEADERS, "referrer-policy": referrer}
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["when"] = _when
        self._environment.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
        self._environment.filters["ticked"] = _ticked
        self._environment.filters["span"] = lambda ms: f"{ms} ms" if ms < 1_000 else span_text(ms)
        self._environment.filters["path"] = lambda text: quote(text, safe="")
        self._version = version

    def landing(self, url: str) -> HTMLResponse:
        """The page that a browser gets at the root of the port."""
        text = self._environment.get_template("landing.html").render(url=url, version=self._version)
        return HTMLResponse(text, 200, self._headers)

    def page(
        self, request: Request, template: str, session: FormSession | None, status: int = 200, **values: Any
    ) -> HTMLResponse:
        refused: Refused | None = getattr(request.state, "refused", None)
        text = self._environment.get_template(template).render(
            session=session,
            refused=refused,
            kept=lambda path: _typed(refused.text if refused and refused.path == path else None),
            version=self._version,
            notice=NOTICES.get(request.query_params.get("done", ""), ""),
            here=request.url.path,
            **values,
        )
        return HTMLResponse(text, refused.status if refused else status, self._headers)


def _typed(text: Callable[[str], str] | None) -> Callable[..., str]:
    """Return the text typed into a field of a form, or the default."""
    return lambda name, default="": default if text is None else text(name)


def _ticked(text: str) -> Markup:
    """The text in HTML, with what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  # it is escaped


def _when(at_ms: int) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
