"""AddPermission, RemovePermission."""

from __future__ import annotations

from cns_common.aws.call import Call, Params, Result
from cqs.authorization import QueueAccess
from cqs.queues.permissions import read_grant, read_label, with_grant, without_grant
from cqs.queues.queues import Queues


class QueuePermissionOperations:
    def __init__(self, access: QueueAccess, queues: Queues) -> None:
        self._access = access
        self._queues = queues

    async def add_permission(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "AddPermission")
        grant = read_grant(params)
        call.changed = await self._queues.set_policy(view, lambda policy: with_grant(policy, view.arn, grant))
        return {}

    async def remove_permission(self, call: Call, params: Params) -> Result:
        view = await self._access.queue(call, params, "RemovePermission")
        label = read_label(params)
        call.changed = await self._queues.set_policy(view, lambda policy: without_grant(policy, label))
        return {}
