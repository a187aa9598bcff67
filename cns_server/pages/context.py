"""The parts that all groups of pages use: the signed-in call, checked forms, templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.datastructures import FormData

from cns.authorization import Access
from cns_common.arn import parse_arn
from cns_common.errors import RequestError
from cns_common.events.recent_events import AccountEvent
from cns_common.events.schema import QueueCounted
from cns_server.pages.rendering import Templates
from cns_server.pages.sessions import FORM_FIELD, Session, Sessions, SignInRequired, check_form
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.problems import Problem

FIELDS_MAX = 20
Done = TypeVar("Done")


class Form:
    """The fields of a posted form; a missing one is ''. Characters that cannot be encoded are replaced: a form in UTF-7
    may have them."""

    def __init__(self, data: FormData) -> None:
        self._data = data

    def text(self, name: str) -> str:
        value = self._data.get(name, "")
        return value.encode(errors="replace").decode() if isinstance(value, str) else ""

    def optional(self, name: str) -> str | None:
        """The field's text without space around it; None for an empty one."""
        return self.text(name).strip() or None

    def number(self, name: str) -> int | None:
        text = self.optional(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise Problem(400, "InvalidRequest", f"{name} must be a number.")
        return int(text)


class PageContext:
    def __init__(self, calls: RestCalls, sessions: Sessions, templates: Templates, access: Access) -> None:
        self._calls = calls
        self._access = access
        self.streams: Counter[str] = Counter()  # live figures that are open in this process, by holder
        self._sessions = sessions
        self._templates = templates

    @property
    def leaving(self) -> bool:
        """Whether the process will stop: streams end."""
        return self._calls.leaving

    async def session(self, request: Request) -> Session:
        """Raises SignInRequired."""
        return await self._sessions.find(request)

    async def is_signed_in(self, request: Request) -> bool:
        try:
            await self._sessions.find(request)
        except SignInRequired:
            return False
        return True

    async def call(self, request: Request) -> tuple[Session, RestCall]:
        """The session of a request, and the call that does its work. Raises SignInRequired."""
        session = await self._sessions.find(request)
        return session, self._calls.begin_as(request, session.principal)

    def check_account(self, rest: RestCall) -> None:
        """Raise Problem 403 for an operator, who has no queues and topics."""
        if rest.principal.operator:
            raise Problem(403, "AccessDenied", "An operator token administrates accounts only.")

    async def sees_deliveries(self, rest: RestCall, topic: str) -> bool:
        """Whether the REST API shows the caller the deliveries of a topic. Of a topic that was deleted, and has no
        policy any more, only the account's root sees them."""
        call = replace(rest.call, region=topic.split(":")[3])
        try:
            for action in ("GetTopicAttributes", "ListSubscriptionsByTopic"):
                await self._access.topic(call, topic, action)
        except RequestError as error:
            return error.code == "NotFound" and rest.call.caller.root
        return True

    async def seen(self, rest: RestCall, events: Sequence[AccountEvent]) -> list[AccountEvent]:
        """The events about topics whose deliveries the caller may see, and those about no topic."""
        topics = {event.topic for event in events if not isinstance(event, QueueCounted)}
        hidden = {arn for arn in topics if is_topic(arn) and not await self.sees_deliveries(rest, arn)}
        return [event for event in events if isinstance(event, QueueCounted) or event.topic not in hidden]

    def check_operator(self, rest: RestCall) -> None:
        """Raise Problem 403 for others than an operator."""
        self._calls.check_operator(rest)

    async def act(self, rest: RestCall, action: str, work: Awaitable[Done], target: str = "", detail: str = "") -> Done:
        """The result of an administrative act of the service, which is recorded."""
        return await self._calls.act(rest, action, work, target, detail)

    async def posted(self, request: Request) -> tuple[Session, RestCall, Form]:
        """The same for a posted form of this session. Raises Problem 403 for another form."""
        session, rest = await self.call(request)
        form = Form(await request.form(max_files=0, max_fields=FIELDS_MAX))
        check_form(request, session, form.text(FORM_FIELD))
        request.state.form = form  # for the page of a failure
        return session, rest, form

    async def confirmed(self, request: Request) -> tuple[Session, RestCall]:
        """The same for a form whose act cannot be undone. Raises Problem 400 unless its box is ticked."""
        session, rest, form = await self.posted(request)
        check_sure(form)
        return session, rest

    def page(self, request: Request, template: str, session: Session, **values: Any) -> HTMLResponse:
        return self._templates.page(request, template, session, **values)


def check_sure(form: Form) -> None:
    """Raise Problem 400 unless the box is ticked that confirms an act."""
    if form.text("sure") != "yes":
        raise Problem(400, "InvalidRequest", "Tick the box to confirm.")


def is_topic(arn: str) -> bool:
    """False for '', of a publish to a phone number, and for a mobile endpoint."""
    parsed = parse_arn(arn)
    return parsed is not None and not parsed.resource.startswith("endpoint/")


def done(path: str, notice: str) -> RedirectResponse:
    """To a page that shows a notice (`rendering.NOTICES`)."""
    return RedirectResponse(f"{path}?{urlencode({'done': notice})}", 303)
