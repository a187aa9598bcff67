"""STS: only GetCallerIdentity, which tools call to find out who they are."""

from __future__ import annotations

from cns_common.aws.call import Call, Operation, Params, Result


async def get_caller_identity(call: Call, _params: Params) -> Result:
    """Every signed caller may call this, whatever any policy says."""
    caller = call.caller
    return {"Arn": caller.arn, "UserId": caller.user_id, "Account": caller.account}


def operations() -> dict[str, Operation]:
    return {"GetCallerIdentity": get_caller_identity}
