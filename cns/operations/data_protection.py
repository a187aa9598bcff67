"""PutDataProtectionPolicy, GetDataProtectionPolicy."""

from __future__ import annotations

from cns.errors import required_text
from cns.topics.data_protection import PARAMETER, DataProtection
from cns_common.aws.call import Call, Params, Result


class DataProtectionOperations:
    def __init__(self, protection: DataProtection) -> None:
        self._protection = protection

    async def put_data_protection_policy(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "ResourceArn")
        required_text(params, PARAMETER)
        await self._protection.put(call, arn)
        return {}

    async def get_data_protection_policy(self, call: Call, params: Params) -> Result:
        return {PARAMETER: await self._protection.get(call, required_text(params, "ResourceArn"))}
