"""Data protection policies: AWS closed them to new customers on 30 April 2026, and answers those as in regions without
them. To accept a policy without enforcing it would mislead its owner."""

from __future__ import annotations

from cns.arns import check_topic_arn
from cns.authorization import Access
from cns.errors import invalid_parameter
from cns.limits import FIFO_SUFFIX
from cns_common.aws.call import Call
from cns_common.errors import RequestError

PARAMETER = "DataProtectionPolicy"
NO_POLICY = ""
_ARN = "ResourceArn"


class DataProtection:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def put(self, call: Call, arn: str) -> None:
        """Refuse any policy, also the empty one."""
        await self._check(call, arn, "PutDataProtectionPolicy")
        raise _unsupported("PutDataProtectionPolicy", "in this region")

    async def get(self, call: Call, arn: str) -> str:
        await self._check(call, arn, "GetDataProtectionPolicy")
        return NO_POLICY

    async def _check(self, call: Call, arn: str, action: str) -> None:
        check_topic_arn(arn, _ARN, call.region)
        if arn.endswith(FIFO_SUFFIX):  # AWS does not look whether it exists
            raise _unsupported(action, "on FIFO topics")
        await self._access.topic(call, arn, action, _ARN)


def check_policy(text: str) -> None:
    """Check the policy of a new topic."""
    if text != NO_POLICY:
        raise invalid_parameter(f"{PARAMETER} Reason: Data protection functionality is not supported in this region")


def _unsupported(action: str, where: str) -> RequestError:
    return RequestError("InvalidAction", f"Operation ({action}) is not supported {where}")
