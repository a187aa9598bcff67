"""Sessions of the pages: a cookie with a token that the caller's key signed; a form token against forged requests."""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol
from urllib.parse import urlsplit

from fastapi import Request, Response

from cns_common.aws.auth.accounts import AccountStore
from cns_common.aws.call import Caller
from cns_common.clock import Clock
from cns_common.ids import hex_id
from cns_server.rest.authentication import Principal, RestAuthenticator
from cns_server.rest.grants import NewToken, sign_grant
from cns_server.rest.problems import Problem

COOKIE = "cns_session"
REGION_COOKIE = "cns_region"
SESSION_S = 12 * 3_600
FORM_FIELD = "form_token"
REGION = re.compile(r"[a-z0-9-]{1,32}")
_PATH = "/ui"
FORM_PURPOSE = b"cns-form-token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The signed-in principal, and the token that every form of the pages sends back."""

    principal: Principal
    form_token: str

    @property
    def account(self) -> str:
        return self.principal.caller.account

    @property
    def region(self) -> str:
        return self.principal.region

    @property
    def name(self) -> str:
        """The person's name: an operator, the account's root or a user."""
        return "operator" if self.principal.operator else self.principal.caller.user_name or "root"


class SignInRequired(Exception):
    """The request has no valid session."""


class Sessions:
    def __init__(self, authenticator: RestAuthenticator, accounts: AccountStore, clock: Clock) -> None:
        self._authenticator = authenticator
        self._accounts = accounts
        self._clock = clock

    async def find(self, request: Request) -> Session:
        """The session of a request. Raises SignInRequired, or CnsError if the store does not answer."""
        token = request.cookies.get(COOKIE, "")
        region = request.cookies.get(REGION_COOKIE, "")
        region = region if REGION.fullmatch(region) else ""
        try:
            principal = self._authenticator.bearer(token, region, session=True) if token else None
        except Problem:
            principal = None
        if principal is None or await self._accounts.has_ended(principal.session_id):
            raise SignInRequired
        return Session(principal=principal, form_token=form_token(token, FORM_PURPOSE))

    def sign_in(
        self, response: Response, *, key_id: str, secret: str, operator_token: str, region: str, secure: bool
    ) -> Principal:
        """Set the cookies. Raises Problem 401 for wrong credentials."""
        check_region(region)
        if operator_token:
            principal = self._authenticator.bearer(operator_token, "")
            if not principal.operator:
                raise Problem(401, "InvalidToken", "The operator token is not valid.")
            token = self._authenticator.operator_session(principal, hex_id(), SESSION_S)
            self._set_cookies(response, token, region, secure=secure)
            return principal
        caller = self._authenticator.by_secret(key_id, secret)
        return self.begin(response, caller, secret, region=region, secure=secure)

    def begin(self, response: Response, caller: Caller, secret: str, *, region: str, secure: bool) -> Principal:
        """Set the cookies of a session that the caller's key signs."""
        expires_s = self._clock.now_ms() // 1000 + SESSION_S
        token = sign_grant(
            NewToken(caller.key_id, caller.account, expires_s, session=True, session_id=hex_id()), secret
        )
        self._set_cookies(response, token, region, secure=secure)
        return Principal(caller=caller, region=region)

    async def sign_out(self, session: Session, response: Response) -> None:
        """End the session on the server, so that every copy of its cookie is refused."""
        until_ms = session.principal.expires_s * 1000
        now_ms = min(self._clock.now_ms(), self._clock.real_ms())  # an operator's session ends by the latter
        await self._accounts.end_session(session.principal.session_id, until_ms, now_ms)
        self.forget(response)

    def forget(self, response: Response) -> None:
        """Have the browser delete the cookies."""
        response.delete_cookie(COOKIE, path=_PATH)
        response.delete_cookie(REGION_COOKIE, path=_PATH)

    def _set_cookies(self, response: Response, token: str, region: str, *, secure: bool) -> None:
        for name, value in ((COOKIE, token), (REGION_COOKIE, region)):
            response.set_cookie(name, value, SESSION_S, path=_PATH, secure=secure, httponly=True, samesite="strict")


def check_region(region: str) -> None:
    """Raise Problem 400 for a text that is no region; '' is the service's own."""
    if region and not REGION.fullmatch(region):
        raise Problem(400, "InvalidRequest", "A region is like us-east-1.")


class FormSession(Protocol):
    """A session whose forms send its token back."""

    @property
    def form_token(self) -> str: ...


def check_form(request: Request, session: FormSession, given: str) -> None:
    """Raise Problem 403 for a form that another site sent."""
    origin = request.headers.get("origin", "")
    foreign = origin not in ("", "null") and _host_of(origin) != request.headers.get("host", "")
    if foreign or not hmac.compare_digest(session.form_token.encode(), given.encode()):
        raise Problem(403, "FormExpired", "The form is not one of this session. Open the page again.")


def _host_of(origin: str) -> str | None:
    """None for a text that is no URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def form_token(token: str, purpose: bytes) -> str:
    """Others do not know the cookie's token, from which it is derived."""
    mac = hmac.digest(token.encode(errors="replace"), purpose, sha256)
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode("ascii")
