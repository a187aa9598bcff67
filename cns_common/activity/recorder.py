"""Runs administrative acts of a call and records how they ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from cns_common.activity.failure_limit import FailureLimit, LeftOut
from cns_common.activity.log import ActLog
from cns_common.activity.record import OK, UNKNOWN, Actor, AdministrativeAct, code_of, short
from cns_common.aws.call import INTERNAL_ACCOUNT, Call, Operation, Params
from cns_common.aws.call import Result as Members
from cns_common.clock import Clock

Result = TypeVar("Result")
LEAVE_OUT = "cns:LeaveOutFailures"
"""The action of a record that sums up the acts left out for one source. It names the caller of the last of them; its
result is THROTTLED."""
THROTTLED = "Throttled"
CHANGE_NOTHING = frozenset({"cns:RevealWebhookSecret", "cns:SignIn"})
"""Acts that are recorded although they change nothing. A caller can repeat them at will, so they are limited as
failures are."""
ACTS: Mapping[str, Mapping[str, str]] = {
    "sqs": {
        "AddPermission": "QueueUrl",
        "CancelMessageMoveTask": "TaskHandle",
        "CreateQueue": "QueueName",
        "DeleteQueue": "QueueUrl",
        "PurgeQueue": "QueueUrl",
        "RemovePermission": "QueueUrl",
        "SetQueueAttributes": "QueueUrl",
        "StartMessageMoveTask": "SourceArn",
        "TagQueue": "QueueUrl",
        "UntagQueue": "QueueUrl",
    },
    "sns": {
        "AddPermission": "TopicArn",
        "ConfirmSubscription": "TopicArn",
        "CreatePlatformApplication": "Name",
        "CreateTopic": "Name",
        "DeletePlatformApplication": "PlatformApplicationArn",
        "DeleteTopic": "TopicArn",
        "PutDataProtectionPolicy": "ResourceArn",
        "RemovePermission": "TopicArn",
        "SetPlatformApplicationAttributes": "PlatformApplicationArn",
        "SetSMSAttributes": "",
        "SetSubscriptionAttributes": "SubscriptionArn",
        "SetTopicAttributes": "TopicArn",
        "Subscribe": "TopicArn",
        "TagResource": "ResourceArn",
        "Unsubscribe": "SubscriptionArn",
        "UntagResource": "ResourceArn",
    },
}
"""The operations that are administrative, by service, and the parameter that names their target. Others are the data
plane: messages, and phones and devices, which are registered by the million."""


class ActRecorder:
    """`now_s` is a monotonic clock, in seconds."""

    def __init__(self, log: ActLog, clock: Clock, now_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._failures = FailureLimit(now_s)

    async def run(
        self,
        actor: Actor,
        action: str,
        work: Awaitable[Result],
        target: str = "",
        detail: str | Callable[[Result], str] = "",
        call: Call | None = None,
    ) -> Result:
        """Run `work` and record its result or its error, which are then returned or raised. `detail` may depend on the
        result. `call` says whether anything was changed."""
        known = detail if isinstance(detail, str) else ""
        try:
            result = await work
        except asyncio.CancelledError:  # cancelled: the act may have been done, and nothing more can be awaited
            self._log.record_later(self._act(actor, action, target, known, UNKNOWN), failed=_is_apart(actor))
            raise
        except Exception as error:  # whatever the work raises is the act's result, and goes on
            await self.record(actor, action, code_of(error), target, known)
            raise
        detail = detail if isinstance(detail, str) else detail(result)
        await self.record(actor, action, OK, target, detail, changed=call is None or call.changed)
        return result

    async def record(
        self, actor: Actor, action: str, result: str, target: str = "", detail: str = "", *, changed: bool = True
    ) -> None:
        """Record what was done, or how it failed. Of acts that failed or changed nothing, only some are recorded: see
        `FailureLimit`."""
        act = self._act(actor, action, target, detail, result, unchanged=not changed)
        failed = result not in (OK, UNKNOWN) or not changed or action in CHANGE_NOTHING
        if failed:
            left_out = self._failures.admit(actor)
            if left_out is None:
                return
            if left_out:
                more = f"{left_out} more before failed or changed nothing"
                act = replace(act, detail=", ".join(filter(None, (act.detail, more))))
        await self._log.record(act, failed=failed or _is_apart(actor))
        for source in self._failures.due():
            await self._log.record(self._summary(source), failed=True)

    def close(self) -> None:
        """Sum up what was left out, and close the log."""
        for source in self._failures.take_all():
            self._log.record_later(self._summary(source), failed=True)
        self._log.close()

    def wrap(self, service: str, operations: Mapping[str, Operation]) -> dict[str, Operation]:
        """The table with the administrative operations recorded."""
        acts = ACTS.get(service, {})
        return {
            name: self._recorded(f"{service}:{name}", run) if name in acts else run for name, run in operations.items()
        }

    def _recorded(self, action: str, operation: Operation) -> Operation:
        async def run(call: Call, params: Params) -> Members:
            if call.caller.account == INTERNAL_ACCOUNT or call.caller.service:
                return await operation(call, params)
            target = target_of(action, params) or ""
            call.changed = True  # a request of the REST API may run several operations
            return await self.run(actor_of(call), action, operation(call, params), target, _detail(params), call)

        return run

    def _summary(self, source: LeftOut) -> AdministrativeAct:
        detail = f"{source.acts} further acts that failed or changed nothing were not recorded"
        return self._act(source.last, LEAVE_OUT, "", detail, THROTTLED)

    def _act(
        self, actor: Actor, action: str, target: str, detail: str, result: str, *, unchanged: bool = False
    ) -> AdministrativeAct:
        return AdministrativeAct(
            at_ms=self._clock.now_ms(),
            action=action,
            target=short(target),
            detail=short(detail),
            account=actor.account,
            principal=actor.principal,
            key_id=actor.key_id,
            address=actor.address,
            via=actor.via,
            result=result,
            unchanged=unchanged,
            request_id=actor.request_id,
        )


def _is_apart(actor: Actor) -> bool:
    """Whether all acts of the caller go to the files of failures: callers without credentials, and visitors by a portal
    link, which can pause and resume without end."""
    return actor.via == "portal" or not (actor.account or actor.principal)


def actor_of(call: Call) -> Actor:
    caller = call.caller
    return Actor(
        account=caller.account,
        principal=caller.arn,
        key_id=caller.key_id,
        address=call.source_ip,
        via=call.via,
        request_id=call.request_id,
    )


def target_of(action: str, params: Mapping[str, Any]) -> str | None:
    """The target of an operation such as `sqs:CreateQueue`, as the caller names it; None: it is of the data plane."""
    service, _, name = action.partition(":")
    parameter = ACTS.get(service, {}).get(name)
    return None if parameter is None else str(params.get(parameter) or "")


def _detail(params: Mapping[str, Any]) -> str:
    """The names of what is set, and the protocol of a subscription; never a value."""
    attributes = params.get("Attributes") or params.get("attributes") or {}
    names = sorted(map(str, attributes)) if isinstance(attributes, Mapping) else []
    named = [str(params[name]) for name in ("AttributeName", "Protocol", "Label") if params.get(name)]
    return ", ".join([*named, *names])
