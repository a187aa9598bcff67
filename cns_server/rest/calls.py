"""Runs operations of SQS and SNS for requests of the REST API, as their principals and within their grants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from cns_common.activity.recorder import ActRecorder, actor_of, target_of
from cns_common.aws.call import Call, Params, Result
from cns_common.aws.front_door import FrontDoor
from cns_common.errors import StoreUnavailable
from cns_common.ids import uuid_text
from cns_server.admin_address import AdminAddress
from cns_server.rest.authentication import Principal, RestAuthenticator
from cns_server.rest.problems import Problem

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCall:
    """A request of the REST API with its principal."""

    principal: Principal
    call: Call
    service_url: str
    """The beginning of links for others, such as owners of endpoints, which may not reach the address for
    administration; no slash at its end."""

    @property
    def region(self) -> str:
        return self.call.region

    def queue_url(self, account: str, queue: str) -> str:
        return f"{self.call.base_url}/{account}/{queue}"

    def queue_arn(self, account: str, queue: str) -> str:
        return f"arn:aws:sqs:{self.region}:{account}:{queue}"

    def topic_arn(self, account: str, topic: str) -> str:
        return f"arn:aws:sns:{self.region}:{account}:{topic}"


class RestCalls:
    def __init__(
        self,
        front: FrontDoor,
        authenticator: RestAuthenticator,
        admin: AdminAddress,
        acts: ActRecorder,
        *,
        public_url: str,
        service_url: str,
    ) -> None:
        """`service_url` is the beginning of the service's URLs where a request does not say it."""
        self._front = front
        self.authenticator = authenticator
        self._admin = admin
        self.acts = acts
        self._public_url = public_url.rstrip("/")
        self._service_url = service_url

    @property
    def leaving(self) -> bool:
        """Whether the process will stop."""
        return self._front.leaving

    def time(self, operation: str, began_s: float) -> None:
        """Count the response time of a REST operation, by the `perf_counter` at its begin."""
        self._front.time_rest(operation, began_s)

    async def begin(self, request: Request) -> RestCall:
        """Authenticate a request. Raises Problem or RequestError."""
        return self.begin_as(request, await self.authenticator.identify(request))

    def begin_as(self, request: Request, principal: Principal) -> RestCall:
        """A call of a principal that is authenticated."""
        if self._front.stopping:
            raise StoreUnavailable("stopping")
        if principal.operator and not self._admin.admits(request.scope):
            raise Problem(403, "AccessDenied", "Operators use the address for administration, CNS_ADMIN_BIND.")
        client = request.client
        headers = dict(request.scope["headers"])
        call = Call(
            caller=principal.caller,
            region=principal.region,
            request_id=uuid_text(),
            base_url=self._public_url or str(request.base_url).rstrip("/").removesuffix("/api/v1").removesuffix("/ui"),
            source_ip=client.host if client else "",
            secure=request.url.scheme == "https",
            client_subject=request.scope.get("extensions", {}).get("tls", {}).get("client_cert_name", ""),
            headers=headers,
            trace_header=headers.get(b"x-amzn-trace-id", b"").decode("latin-1"),
            policies_enforced=self.authenticator.enforced,
            via="rest" if request.url.path.startswith("/api/") else "pages",
        )
        by_admin_address = self._admin.is_apart and self._admin.admits(request.scope)
        return RestCall(
            principal=principal, call=call, service_url=self._service_url if by_admin_address else call.base_url
        )

    async def run(self, rest: RestCall, action: str, params: Params, *, account: str = "", queue: str = "") -> Result:
        """The result of an operation such as `sqs:SendMessage`. `account` and `queue` are what it works on."""
        service, _, name = action.partition(":")
        async with self.refusals(rest, action, target_of(action, params)):
            self.check(rest, action, account=account, queue=queue)
        return await self._front.run("sns" if service == "sns" else "sqs", name, rest.call, _without_none(params))

    async def act(
        self,
        rest: RestCall,
        action: str,
        work: Awaitable[Done],
        target: str = "",
        detail: str | Callable[[Done], str] = "",
    ) -> Done:
        """The result of an administrative act that is no operation of SQS or SNS. It is recorded."""
        return await self.acts.run(actor_of(rest.call), f"cns:{action}", work, target, detail)

    @asynccontextmanager
    async def refusals(self, rest: RestCall, action: str, target: str | None) -> AsyncIterator[None]:
        """Record a Problem that the block raises as the result of an administrative act, `sqs:CreateQueue`. Without a
        target it is no such act."""
        try:
            yield
        except Problem as problem:
            if target is not None:
                await self.acts.record(actor_of(rest.call), action, problem.code, target)
            raise

    def check(self, rest: RestCall, action: str, *, account: str = "", queue: str = "") -> None:
        """Raise Problem if the principal's grant does not allow the action there."""
        principal = rest.principal
        if principal.operator:
            raise Problem(403, "AccessDenied", "An operator token administrates accounts only.")
        grant = principal.grant
        if grant is not None and not grant.permits(action, account, queue):
            raise Problem(403, "AccessDenied", f"The token does not allow {action} here.")

    def check_own(self, rest: RestCall, account: str) -> None:
        """Raise Problem unless `account` is the principal's own: others cannot create or list there."""
        own = rest.principal.caller.account
        if account != own:
            raise Problem(403, "AccessDenied", f"The caller cannot create or list resources of the account {account}.")

    def check_operator(self, rest: RestCall) -> None:
        if not rest.principal.operator:
            text = "Only an operator may do or see this: `cns operator token` prints a token."
            raise Problem(403, "AccessDenied", text)

    def check_administrator(self, rest: RestCall, account: str) -> None:
        """Raise Problem unless the principal is an operator, or the account's own root without a grant."""
        caller = rest.principal.caller
        if not (caller.root and caller.account == account and rest.principal.grant is None):
            self.check_operator(rest)


def _without_none(params: Params) -> Params:
    return {name: value for name, value in params.items() if value is not None}
