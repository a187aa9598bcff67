"""The look of the pages behind the links in mails: one template, no script, no external resources."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template

from starlette.responses import HTMLResponse, Response

_NO_FACTS: Mapping[str, str] = {}


class MailPage:
    """Renders pages from a template that is read once. All texts are plain text, and are escaped."""

    def __init__(self) -> None:
        here = Path(__file__)
        self._style = here.with_suffix(".css").read_text(encoding="utf-8")
        self._template = Template(here.with_suffix(".html").read_text(encoding="utf-8"))
        allowed = b64encode(sha256(self._style.encode()).digest()).decode("ascii")
        self._headers = {
            "content-security-policy": f"default-src 'none'; style-src 'sha256-{allowed}'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'",
            "referrer-policy": "no-referrer",  # the URL contains the token
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "x-robots-tag": "noindex",
        }

    def show(
        self,
        title: str,
        *texts: str,
        status: int = 200,
        facts: Mapping[str, str] = _NO_FACTS,
        button: tuple[str, str] | None = None,
        link: tuple[str, str, str] | None = None,
    ) -> Response:
        """`button` is a text and a URL to post to; `link` is the text before the link, the link's text, and its URL."""
        parts = [f"<p>{escape(text)}</p>" for text in texts]
        if facts:
            rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
            parts.append(f"<dl>{rows}</dl>")
        if button is not None:
            text, action = button
            parts.append(
                f'<form method="post" action="{escape(action)}"><button type="submit">{escape(text)}</button></form>'
            )
        if link is not None:
            before, text, target = link
            parts.append(f'<p class="faint">{escape(before)} <a href="{escape(target)}">{escape(text)}</a></p>')
        page = self._template.substitute(title=escape(title), style=self._style, body="\n".join(parts))
        return HTMLResponse(page, status, self._headers)
