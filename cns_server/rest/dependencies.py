"""The authenticated call as a parameter of routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from cns_server.rest.calls import RestCall, RestCalls


async def begin(request: Request) -> RestCall:
    calls: RestCalls = request.app.state.calls
    return await calls.begin(request)


Begun = Annotated[RestCall, Depends(begin)]
