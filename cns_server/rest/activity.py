"""The log of administrative acts, for operators."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cns_common.activity.record import AdministrativeAct
from cns_common.activity.search import ActFilter, newest_acts
from cns_common.events.recent_events import Newest
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.models import Wire

SHOWN_MAX = 1_000
SEARCHES_MAX = 2
Text = Annotated[str, Field(max_length=500)]
Time = Annotated[int, Field(ge=0, le=2**53 - 1)]


class ActQuery(BaseModel):
    """Texts other than the account may be a part of the field's."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    since: Time = 0
    until: Time = 0
    account: Text = ""
    principal: Text = ""
    action: Text = ""
    target: Text = ""
    only_failures: bool = False
    limit: Annotated[int, Field(ge=1, le=SHOWN_MAX)] = 100


class Act(Wire):
    """An administrative act."""

    at: int
    action: str = Field(description="sqs:CreateQueue, cns:SignIn, …")
    target: str
    detail: str = Field(description="Names of attributes, a protocol, a key id; never a secret or a value.")
    account: str = Field(description="The caller's; empty for operators and commands.")
    principal: str = Field(description="ARN; cns:operator; cns:portal/LINK; user@host of a command.")
    key_id: str
    address: str
    via: str = Field(description="aws, rest, pages, portal or command.")
    result: str = Field(description="ok, or the code of the error.")
    unchanged: bool = Field(description="Whether everything was as wanted before: nothing was done.")
    request_id: str


class Acts(Wire):
    acts: list[Act] = Field(description="The newest first.")
    complete: bool = Field(description="Whether there are no older ones on this machine.")


class ActRoutes:
    def __init__(self, calls: RestCalls, directory: Path) -> None:
        self._calls = calls
        self._directory = directory
        self._turns = asyncio.Semaphore(SEARCHES_MAX)

    def add_to(self, router: APIRouter) -> None:
        router.add_api_route("/acts", self.list_acts, methods=["GET"], response_model=Acts)

    async def list_acts(self, rest: Begun, query: Annotated[ActQuery, Query()]) -> Acts:
        """The newest administrative acts that processes of this machine recorded. Only operators may."""
        wanted = ActFilter(
            since_ms=query.since,
            until_ms=query.until,
            account=query.account,
            principal=query.principal,
            action=query.action,
            target=query.target,
            only_failures=query.only_failures,
        )
        found = await self.find(rest, wanted, query.limit)
        return Acts(acts=[_act(one) for one in found.events], complete=found.complete)

    async def find(self, rest: RestCall, wanted: ActFilter, n: int) -> Newest[AdministrativeAct]:
        """Raises Problem 403 for others than an operator."""
        self._calls.check_operator(rest)
        async with self._turns:
            return await asyncio.to_thread(newest_acts, self._directory, wanted, n)


def _act(act: AdministrativeAct) -> Act:
    return Act(
        at=act.at_ms,
        action=act.action,
        target=act.target,
        detail=act.detail,
        account=act.account,
        principal=act.principal,
        key_id=act.key_id,
        address=act.address,
        via=act.via,
        result=act.result,
        unchanged=act.unchanged,
        request_id=act.request_id,
    )
