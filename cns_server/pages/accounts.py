"""Pages of accounts, for operators."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from cns_server.pages.context import PageContext
from cns_server.pages.sessions import Session
from cns_server.rest.accounts import AccountRoutes
from cns_server.rest.calls import RestCall
from cns_server.rest.models import AccessKey


class AccountPages:
    def __init__(self, context: PageContext, accounts: AccountRoutes) -> None:
        self._context = context
        self._accounts = accounts

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/accounts", self.list_accounts, methods=["GET"])
        app.add_api_route("/accounts", self.create, methods=["POST"])
        app.add_api_route("/accounts/{account}/rotate", self.rotate, methods=["POST"])

    async def list_accounts(self, request: Request) -> Response:
        session, rest = await self._context.call(request)
        return await self._page(request, session, rest, None)

    async def create(self, request: Request) -> Response:
        """The answer shows the secret, so it is no redirection."""
        session, rest, _ = await self._context.posted(request)
        return await self._page(request, session, rest, await self._accounts.create_account(rest))

    async def rotate(self, request: Request, account: str) -> Response:
        session, rest = await self._context.confirmed(request)
        return await self._page(request, session, rest, await self._accounts.rotate_keys(rest, account))

    async def _page(self, request: Request, session: Session, rest: RestCall, made: AccessKey | None) -> Response:
        accounts = (await self._accounts.list_accounts(rest)).accounts
        return self._context.page(request, "accounts.html", session, accounts=accounts, made=made)
