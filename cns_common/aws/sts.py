"""STS, as much of it as tools ask to find out who they are."""

from __future__ import annotations

from cns_common.aws.call import Call, Operation, Params, Result


async def get_caller_identity(call: Call, _params: Params) -> Result:
    """Allowed to every signed caller, whatever any policy says."""
    caller = call.caller
    return {"Arn": caller.arn, "UserId": caller.user_id, "Account": caller.account}


def operations() -> dict[str, Operation]:
    return {"GetCallerIdentity": get_caller_identity}
