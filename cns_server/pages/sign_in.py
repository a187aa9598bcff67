"""Sign in and out. Each sign-in is recorded as an administrative act; of those that fail, some (`FailureLimit`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData

from cns_common.activity.record import OK, Actor
from cns_common.activity.recorder import actor_of
from cns_common.arn import ACCOUNT_ID
from cns_common.errors import CnsError
from cns_common.ids import uuid_text
from cns_server.pages.context import FIELDS_MAX, Form
from cns_server.pages.rendering import Templates
from cns_server.pages.sessions import FORM_FIELD, Sessions, SignInRequired, check_form, check_region
from cns_server.rest.authentication import Principal
from cns_server.rest.calls import RestCalls
from cns_server.rest.problems import Problem, status_and_text
from cns_server.rest.sign_in.console_sign_in import ConsoleSignIn

ACTION = "cns:SignIn"
_LOCAL = re.compile(r"/ui/(?!sign-)[!-\[\]-~]{1,2000}")
_NOT_ENDED = "This browser is signed out, but the service could not end the session: copies of its cookie stay valid."
_KEY_ID = re.compile("[A-Z0-9]{16,128}")


class SignInPages:
    def __init__(self, sessions: Sessions, console: ConsoleSignIn, templates: Templates, calls: RestCalls) -> None:
        self._sessions = sessions
        self._console = console
        self._templates = templates
        self._calls = calls

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/", self.home, methods=["GET"])
        app.add_api_route("/sign-in", self.ask, methods=["GET"])
        app.add_api_route("/sign-in", self.sign_in, methods=["POST"])
        app.add_api_route("/sign-out", self.sign_out, methods=["POST"])

    async def home(self, request: Request) -> Response:
        operator = (await self._sessions.find(request)).principal.operator
        return RedirectResponse("/ui/accounts" if operator else "/ui/queues", 303)

    async def ask(self, request: Request) -> Response:
        return self._page(request, request.query_params.get, 200, "")

    async def sign_in(self, request: Request) -> Response:
        form = Form(await request.form(max_files=0, max_fields=FIELDS_MAX))
        response = RedirectResponse(_local(form.text("next")), 303)
        try:
            await self._sign_in(request, response, form)
        except Problem as problem:
            return self._page(request, form.text, problem.status, problem.detail)
        return response

    def _page(self, request: Request, text: Callable[[str], str | None], status: int, failure: str) -> Response:
        """The forms, with what was typed into them before, except secrets."""
        given = {name: text(name) or "" for name in ("key_id", "region", "account", "next")}
        return self._templates.page(request, "sign_in.html", None, status, given=given, failure=failure)

    async def _sign_in(self, request: Request, response: Response, form: Form) -> None:
        account = form.text("account").strip()
        try:
            if account:
                principal = await self._sign_in_owner(request, response, form, account)
            else:
                principal = self._sign_in_key(request, response, form)
        except Problem as problem:
            target = account if ACCOUNT_ID.fullmatch(account) else ""
            actor = _stranger(request, form.text("key_id").strip())
            await self._calls.acts.record(actor, ACTION, problem.code, target)
            raise
        await self._calls.acts.record(actor_of(self._calls.begin_as(request, principal).call), ACTION, OK)

    async def _sign_in_owner(self, request: Request, response: Response, form: Form, account: str) -> Principal:
        region = form.text("region").strip()
        check_region(region)
        found = await self._console.sign_in(account, form.text("password"), _address(request))
        return self._sessions.begin(response, *found, region=region, secure=_is_secure(request))

    def _sign_in_key(self, request: Request, response: Response, form: Form) -> Principal:
        given = {name: form.text(name).strip() for name in ("key_id", "secret", "operator_token", "region")}
        return self._sessions.sign_in(response, secure=_is_secure(request), **given)

    async def sign_out(self, request: Request) -> Response:
        response: Response = RedirectResponse("/ui/sign-in", 303)
        try:
            session = await self._sessions.find(request)
            form = Form(await request.form(max_files=0, max_fields=FIELDS_MAX))
            check_form(request, session, form.text(FORM_FIELD))
            await self._sessions.sign_out(session, response)
        except SignInRequired:
            pass
        except CnsError as error:  # the store does not answer: the next user of this browser must not be signed in
            response = self._page(request, Form(FormData()).text, status_and_text(error)[0], _NOT_ENDED)
            self._sessions.forget(response)
        return response


def _local(path: str) -> str:
    """Where to go after the sign-in: a page of these, or the first page for any other text."""
    return path if _LOCAL.fullmatch(path) else "/ui/"


def _stranger(request: Request, key_id: str) -> Actor:
    """The actor of a sign-in that failed. A text that is no key id may be a secret in the wrong field, and is not
    recorded."""
    return Actor(
        via="pages",
        key_id=key_id if _KEY_ID.fullmatch(key_id) else "",
        address=_address(request),
        request_id=uuid_text(),
    )


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"
