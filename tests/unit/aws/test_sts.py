"""GetCallerIdentity."""

from __future__ import annotations

from cns_common.aws.call import Call, root_caller
from cns_common.aws.sts import operations


async def test_who_the_caller_is() -> None:
    call = Call(caller=root_caller("111111111111", "AKIA"), region="r", request_id="", base_url="")
    assert await operations()["GetCallerIdentity"](call, {}) == {
        "Arn": "arn:aws:iam::111111111111:root",
        "UserId": "111111111111",
        "Account": "111111111111",
    }
