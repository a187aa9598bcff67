"""Tokens and signed URLs with levels, which end by themselves or with the key that signed them (seed 001)."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter

from cns.rest.models import Caller, Permission
from cns_common.clock import Clock
from cns_server.rest.authentication import SIGNED_URL_PARAMETER
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.grants import NewToken, sign_grant
from cns_server.rest.levels import LEVELS
from cns_server.rest.models import AuthorizationLevel, AuthorizationLevels, PermissionRequest
from cns_server.rest.problems import Problem
from cns_server.rest.queues import AccountId


class PermissionRoutes:
    def __init__(self, calls: RestCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock

    def add_to(self, router: APIRouter) -> None:
        router.add_api_route("/tokens", self.create_token, methods=["POST"], status_code=201, response_model=Permission)
        router.add_api_route("/caller", self.show_caller, methods=["GET"], response_model=Caller)
        router.add_api_route(
            "/permissions/supportedAuthorizationLevels",
            self.supported_authorization_levels,
            methods=["GET"],
            response_model=AuthorizationLevels,
            openapi_extra={"security": []},
        )
        router.add_api_route(
            "/accounts/{account}/permissions",
            self.create_permission,
            methods=["POST"],
            status_code=201,
            response_model=Permission,
        )

    async def show_caller(self, rest: Begun) -> Caller:
        """The caller that the credentials identify."""
        caller = rest.principal.caller
        return Caller(account=caller.account, arn=caller.arn, region=rest.region)

    async def supported_authorization_levels(self) -> AuthorizationLevels:
        """The levels that a token or signed URL may have, with the actions of SQS and SNS that they allow."""
        return AuthorizationLevels(
            levels=[AuthorizationLevel(name=name, actions=sorted(actions)) for name, actions in LEVELS.items()]
        )

    async def create_token(self, rest: Begun, body: PermissionRequest) -> Permission:
        """A bearer token for the caller's own account. Sign in with HTTP Basic: key id and secret."""
        return await self._recorded(rest, rest.principal.caller.account, body)

    async def create_permission(self, rest: Begun, account: AccountId, body: PermissionRequest) -> Permission:
        """A signed URL and token for an account, or one queue of it. It never allows more than the caller may do."""
        return await self._recorded(rest, account, body)

    async def _recorded(self, rest: RestCall, account: str, body: PermissionRequest) -> Permission:
        async def make() -> Permission:
            return self._permission(rest, account, body)

        detail = f"{', '.join(body.levels) or 'all levels'}, {body.life_seconds} s"
        return await self._calls.act(rest, "GrantPermission", make(), body.queue or account, detail)

    def _permission(self, rest: RestCall, account: str, body: PermissionRequest) -> Permission:
        self._calls.check(rest, "cns:GrantPermission", account=account, queue=body.queue or "")
        unknown = [level for level in body.levels if level not in LEVELS]
        if unknown:
            raise Problem(400, "InvalidRequest", f"There is no authorization level {unknown[0]!r:.100}.")
        levels, expires_s = tuple(body.levels), self._clock.now_ms() // 1000 + body.life_seconds
        own = rest.principal.grant
        if own is not None:  # a permission is never wider than the one that gives it
            expires_s = min(expires_s, own.expires_s)
            if own.levels and not set(levels or LEVELS) <= set(own.levels):
                raise Problem(403, "AccessDenied", "The token cannot give levels that it does not have.")
        secret = self._calls.authenticator.secret_of(rest.principal)
        key_id, queue = rest.principal.caller.key_id, body.queue or (own.queue if own else "")
        token = sign_grant(NewToken(key_id, account, expires_s, levels, queue), secret)
        query = urlencode({SIGNED_URL_PARAMETER: token, "region": rest.region})
        path = f"/api/v1/accounts/{account}/queues" + (f"/{queue}" if queue else "")
        return Permission(
            token=token, expires_at=expires_s * 1000, query_string=query, url=f"{rest.call.base_url}{path}?{query}"
        )
