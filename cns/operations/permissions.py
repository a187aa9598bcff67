"""AddPermission, RemovePermission."""

from __future__ import annotations

from cns.errors import missing_parameter, required_text
from cns.topics.topics import Topics
from cns_common.aws.call import Call, Params, Result


class TopicPermissionOperations:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def add_permission(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "TopicArn")
        label = required_text(params, "Label")
        accounts = _required_list(params, "AWSAccountId")
        actions = _required_list(params, "ActionName")
        await self._topics.add_permission(call, arn, label, accounts, actions)
        return {}

    async def remove_permission(self, call: Call, params: Params) -> Result:
        arn = required_text(params, "TopicArn")
        await self._topics.remove_permission(call, arn, required_text(params, "Label"))
        return {}


def _required_list(params: Params, name: str) -> list[str]:
    items: list[str] = params.get(name) or []
    if not items:
        raise missing_parameter(name)
    return items
