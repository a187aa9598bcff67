"""Data protection policies: AWS closed them to new customers on 30 April 2026, so only the empty one is accepted."""

from __future__ import annotations

from cns.authorization import Access
from cns.errors import invalid_parameter
from cns.limits import DATA_PROTECTION_CHARS_MAX
from cns_common.aws.call import Call

PARAMETER = "DataProtectionPolicy"
NO_POLICY = ""


class DataProtection:
    """Refuses policies: to accept one without enforcing it would mislead its owner."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def put(self, call: Call, arn: str, policy: str) -> None:
        await self._access.topic(call, arn, "PutDataProtectionPolicy", "ResourceArn")
        check_policy(policy)
        call.changed = False

    async def get(self, call: Call, arn: str) -> str:
        await self._access.topic(call, arn, "GetDataProtectionPolicy", "ResourceArn")
        return NO_POLICY


def check_policy(text: str) -> None:
    if len(text) > DATA_PROTECTION_CHARS_MAX:
        raise invalid_parameter(f"{PARAMETER} Reason: must be at most {DATA_PROTECTION_CHARS_MAX} characters long")
    if text != NO_POLICY:
        raise invalid_parameter(f"{PARAMETER} Reason: message data protection is no longer available to new customers")
