"""Sign in and out."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from cns_server.pages.context import FIELDS_MAX, Form
from cns_server.pages.rendering import Templates
from cns_server.pages.sessions import FORM_FIELD, Sessions, SignInRequired, check_form
from cns_server.rest.problems import Problem


def add_sign_in(app: FastAPI, sessions: Sessions, templates: Templates) -> None:
    @app.get("/")
    async def home(request: Request) -> Response:
        operator = sessions.find(request).principal.operator
        return RedirectResponse("/ui/accounts" if operator else "/ui/queues", 303)

    @app.get("/sign-in")
    async def ask(request: Request) -> Response:
        return templates.page(request, "sign_in.html", None, failure="")

    @app.post("/sign-in")
    async def sign_in(request: Request) -> Response:
        form = Form(await request.form(max_files=0, max_fields=FIELDS_MAX))
        response = RedirectResponse("/ui/", 303)
        try:
            sessions.sign_in(
                response,
                key_id=form.text("key_id").strip(),
                secret=form.text("secret").strip(),
                operator_token=form.text("operator_token").strip(),
                region=form.text("region").strip(),
                secure=request.url.scheme == "https",
            )
        except Problem as problem:
            return templates.page(request, "sign_in.html", None, problem.status, failure=problem.detail)
        return response

    @app.post("/sign-out")
    async def sign_out(request: Request) -> Response:
        response = RedirectResponse("/ui/sign-in", 303)
        try:
            session = sessions.find(request)
        except SignInRequired:
            return response
        form = Form(await request.form(max_files=0, max_fields=FIELDS_MAX))
        check_form(request, session, form.text(FORM_FIELD))
        sessions.sign_out(response)
        return response
