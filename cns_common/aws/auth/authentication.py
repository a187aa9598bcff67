"""Identifies the caller of a request: by a verified signature, or under `--auth=off` by the key id it names."""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Awaitable, Callable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from cns_common.arn import ACCOUNT_ID
from cns_common.aws.auth.accounts import KeyRing
from cns_common.aws.auth.signature import parse, unknown_key
from cns_common.aws.auth.users import USER_ID_LENGTH
from cns_common.aws.call import ANONYMOUS, INTERNAL_ACCOUNT, USER_NAME, Caller, user_caller
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.names import ServiceName
from cns_common.aws.region import region_of_host, region_of_path
from cns_common.clock import Clock
from cns_common.errors import RequestError

_CREDENTIAL = b"Credential="
"""Also the end of X-Amz-Credential=, as presigned URLs spell it."""
_SCOPE = re.compile(
    rb"([!-$'-+.0-~-]{1,128})(?:/|%2[Ff])[0-9]{0,8}(?:/|%2[Ff])([a-z0-9-]{1,64})(?:/|%2[Ff])([a-z]{1,32})"
)
"""Key id, day, region, service. Their lengths are bounded, so that no caller chooses how long a match takes."""
USER_WITHOUT_NAME = "test"
"""The user under `--auth=off` when the access key id is not a valid name."""
UNVERIFIED_CALLERS_CACHED_MAX = 1_024


class CredentialScope(NamedTuple):
    """The parts of a credential; unverified."""

    key_id: str
    region: str
    service: str


LearnKeys = Callable[[], Awaitable[bool]]
"""Reads the keys from the store. False: it did not, because it has just done so for others."""


async def _learn_nothing() -> bool:
    return False


class Identity(NamedTuple):
    caller: Caller
    region: str


class Authenticator:
    """`enforced` is False under `--auth=off`: any credentials pass, and policies allow."""

    def __init__(
        self,
        ring: KeyRing,
        clock: Clock,
        *,
        enforced: bool,
        region: str,
        account_id: str,
        learn_keys: LearnKeys = _learn_nothing,
    ) -> None:
        self.ring = ring
        self.learn_keys = learn_keys
        self._clock = clock
        self._region = region
        self._account_id = account_id
        self.enforced = enforced

    def identify(self, request: HttpRequest, body: bytes, service: ServiceName, *, anonymous: bool) -> Identity:
        """The caller of a request. `anonymous`: the operation takes unsigned calls. Raises RequestError."""
        if not self.enforced:
            return self._identify_unverified(request)
        signed = parse(request.method, request.raw_path, request.query, request.headers)
        if signed is None:
            if anonymous:
                return Identity(ANONYMOUS, self._region_of(request))
            if service == "sqs":
                raise RequestError("AccessDenied", f"Access to the resource {request.origin}{request.path} is denied.")
            raise RequestError("MissingAuthenticationToken", "Request is missing Authentication Token")
        signed.check(service, self._clock.real_ms())
        known = self.ring.find(signed.key_id)
        if known is None:
            raise unknown_key()
        secret, caller = known
        signed.verify(secret, body)
        return Identity(caller, signed.region)

    def accepts_key(self, key_id: str) -> bool:
        """Whether calls may be signed with an access key now."""
        return not self.enforced or self.ring.find(key_id) is not None

    def scope_of(self, authorization: bytes, query: bytes) -> CredentialScope | None:
        """The scope of the header's first credential, else of the query string's; None where that is malformed.

        It takes time linear in the length of both: any caller may send them.
        """
        return _scope(authorization) or _scope(query)

    def _region_of(self, request: HttpRequest) -> str:
        """The region of an unsigned request: only its address can name one."""
        host = request.fields.get(b"host", b"").decode("latin-1")
        return region_of_path(request.path) or region_of_host(host) or self._region

    def _identify_unverified(self, request: HttpRequest) -> Identity:
        scoped = self.scope_of(request.fields.get(b"authorization", b""), request.query)
        if scoped is None:
            return Identity(_unverified_caller(self._account_id, ""), self._region_of(request))
        known = self.ring.find(scoped.key_id)
        if known is not None and known[1].account == INTERNAL_ACCOUNT:
            return Identity(known[1], scoped.region)
        account = scoped.key_id if ACCOUNT_ID.fullmatch(scoped.key_id) else self._account_id
        return Identity(_unverified_caller(account, scoped.key_id), scoped.region)


@lru_cache(UNVERIFIED_CALLERS_CACHED_MAX)
def _unverified_caller(account: str, key_id: str) -> Caller:
    """The user that an unverified access key id names. Its id is the same in every process and after a restart."""
    name = key_id if USER_NAME.fullmatch(key_id) else USER_WITHOUT_NAME
    digest = b32encode(blake2b(f"{account} {name}".encode(), digest_size=16).digest()).decode()
    return user_caller(account, name, f"AIDA{digest}"[:USER_ID_LENGTH], key_id)


def _scope(text: bytes) -> CredentialScope | None:
    start = text.find(_CREDENTIAL)
    found = _SCOPE.match(text, start + len(_CREDENTIAL)) if start >= 0 else None
    return CredentialScope(*(part.decode("ascii") for part in found.groups())) if found else None
