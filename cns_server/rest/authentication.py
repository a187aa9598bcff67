"""Authentication of the REST API: a bearer token, a signed URL, an access key by HTTP Basic, or Signature Version 4."""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass
from typing import NamedTuple

from fastapi import Request

from cns_common.aws.auth.access_keys import AccessKey
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.call import Caller
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.names import ServiceName
from cns_common.aws.region import REGION_CHARS_MAX
from cns_common.clock import Clock
from cns_server.rest.grants import NewToken, refused, verify_grant
from cns_server.rest.operator_tokens import OPERATOR_PREFIX, OperatorToken, verify_operator_token
from cns_server.rest.problems import Problem

SIGNED_URL_PARAMETER = "auth"
_REGION = re.compile(f"[a-z0-9-]{{1,{REGION_CHARS_MAX}}}")
"""The names that a signature may have: what is made in another region could not be reached by the AWS protocols."""
_UNAUTHENTICATED = (
    "Give a bearer token (POST /api/v1/tokens), a signed URL, an access key by HTTP Basic, or an AWS signature."
)
_OPERATOR = Caller(account="", arn="cns:operator", user_id="operator", user_name="operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller. With a `grant` it may do no more than that allows."""

    caller: Caller
    region: str
    grant: NewToken | None = None
    operator: bool = False
    token: NewToken | OperatorToken | None = None

    @property
    def session_id(self) -> str:
        """The session of a sign-in to the pages, whose token is no credential of the REST API; '' for others."""
        return self.token.session_id if self.token is not None else ""

    @property
    def expires_s(self) -> int:
        return self.token.expires_s if self.token is not None else 0


class ConsoleCaller(NamedTuple):
    """The root of an account that signed in with its password. `secret` signs its session."""

    caller: Caller
    secret: str


class RestAuthenticator:
    def __init__(self, authenticator: Authenticator, clock: Clock, *, region: str, operator_key: bytes) -> None:
        self._authenticator = authenticator
        self._ring = authenticator.ring
        self.enforced = authenticator.enforced
        self._clock = clock
        self._region = region
        self._operator_key = operator_key

    async def identify(self, request: Request) -> Principal:
        """The caller of a request. Raises Problem 400 or 401, or RequestError for a bad signature."""
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        region = request.query_params.get("region") or self._region
        if not _REGION.fullmatch(region):
            raise Problem(400, "InvalidRequest", "A region is like us-east-1.")
        match scheme.lower():
            case "bearer":
                return self.bearer(value.strip(), region)
            case "basic":
                return Principal(caller=self._basic(value.strip()), region=region)
            case "aws4-hmac-sha256":
                return await self._signed(request)
        if token := request.query_params.get(SIGNED_URL_PARAMETER):
            return self.bearer(token, region)
        if not self._authenticator.enforced or "X-Amz-Signature" in request.query_params:
            return await self._signed(request)
        raise Problem(401, "MissingAuthenticationToken", _UNAUTHENTICATED)

    def secret_of(self, principal: Principal) -> str:
        """The secret of the key that the principal used. Raises Problem if it used none."""
        known = self._ring.find(principal.caller.key_id)
        if known is None:
            raise Problem(403, "AccessDenied", "Only the owner of an access key can give permissions.")
        return known[0]

    def bearer(self, token: str, region: str, *, session: bool = False) -> Principal:
        """The principal behind a token; an empty `region` is the service's. Raises Problem 401, also for a token of a
        session of the pages where none is asked for, and for another where one is."""
        region = region or self._region
        if token.startswith(OPERATOR_PREFIX):
            found = verify_operator_token(token, self._operator_key, self._clock.real_ms())
            principal = Principal(caller=_OPERATOR, region=region, operator=True, token=found)
        else:
            caller, grant = verify_grant(token, self._ring, self._clock.now_ms())
            principal = Principal(caller=caller, region=region, grant=grant, token=grant)
        if session is not bool(principal.session_id):
            raise refused("The token is not valid here: sessions are for the pages, other tokens for the API.")
        return principal

    def operator_session(self, operator: Principal, session_id: str, life_s: int) -> str:
        """A token for a session of an operator, which ends with the operator's own token."""
        expires_s = min(operator.expires_s, self._clock.real_ms() // 1000 + life_s)
        return OperatorToken(expires_s, session_id).signed(self._operator_key)

    def _basic(self, value: str) -> Caller:
        try:
            key_id, _, secret = base64.b64decode(value, validate=True).decode("utf-8").partition(":")
        except ValueError:  # not base64, or not UTF-8
            raise refused("The credentials of HTTP Basic are malformed.") from None
        return self.by_secret(key_id, secret)

    def by_secret(self, key_id: str, secret: str) -> Caller:
        """The owner of an access key. Raises Problem 401 if it does not exist or has another secret."""
        known = self._ring.find(key_id)
        if known is None or not hmac.compare_digest(known[0].encode(), secret.encode()):
            raise Problem(401, "InvalidClientTokenId", "The access key does not exist, or its secret is wrong.")
        return known[1]

    async def by_session_key(self, key: AccessKey) -> ConsoleCaller:
        """The root of an account whose password was verified. The announcement of a new password may be late, so the
        keys may be read again. Raises Problem 503 if that was not possible, or CnsError."""
        if self._ring.find(key.key_id) is None:
            await self._authenticator.learn_keys()
        known = self._ring.find(key.key_id)
        if known is None:
            raise Problem(503, "ServiceUnavailable", "The password was changed just now. Try again.")
        return ConsoleCaller(known[1], known[0])

    async def _signed(self, request: Request) -> Principal:
        """A signature for `sqs` or `sns`, as the credential says."""
        client = request.client
        http_request = HttpRequest(
            method=request.method,
            path=request.scope["path"],
            raw_path=request.scope.get("raw_path") or b"/",
            query=request.scope["query_string"],
            headers=list(request.scope["headers"]),
            scheme=request.url.scheme,
            source_ip=client.host if client else "",
            when_gone=lambda _: None,
            body=None,
        )
        scope = self._authenticator.scope_of(http_request.fields.get(b"authorization", b""), http_request.query)
        service: ServiceName = "sns" if scope is not None and scope.service == "sns" else "sqs"
        identity = self._authenticator.identify(http_request, await request.body(), service, anonymous=False)
        return Principal(caller=identity.caller, region=request.query_params.get("region") or identity.region)
