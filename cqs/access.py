"""Which queue a call is about, and whether its caller may do there what it asks."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from common.aws.call import INTERNAL_ACCOUNT, Call, Params
from common.aws.policy import PolicyRequest, Verdict, decide, sqs_refusal
from common.aws.policy_facts import call_facts
from common.clock import Clock
from common.errors import RequestError
from cqs import internal_queues
from cqs.addresses import addressed_queue, no_such_queue, queue_url
from cqs.names import QueueKey
from cqs.permissions import OWNER_ONLY
from cqs.queue_cache import QueueCache
from cqs.queue_view import QueueView


class Access:
    def __init__(self, cache: QueueCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock

    def queue(self, call: Call, params: Params, action: str) -> Coroutine[Any, Any, QueueView]:
        """The queue that a request names by its QueueUrl or path, once the caller may do `action` there."""
        return self.queue_of(call, addressed_queue(call, params.get("QueueUrl")), action)

    async def queue_of(self, call: Call, key: QueueKey, action: str) -> QueueView:
        view = self._cache.cached(key) or await self._cache.find(key)
        if view is None:
            raise no_such_queue()
        if view.internal:
            _check_internal(call, action)
        if view.policy is not None or call.caller.account != view.account or call.caller.service:
            self._authorise(call, view, action)  # else an owner's call, which nothing can refuse
        return view

    def own_account(self, call: Call, action: str) -> str:
        """The account in which the caller may create or list queues: its own, if it has one."""
        caller = call.caller
        if caller.account and not caller.service:
            return caller.account
        request = PolicyRequest(principal=caller, action=f"sqs:{action}", resource="*")
        raise RequestError("AccessDenied", sqs_refusal(Verdict.NOT_ALLOWED, request, f"{call.base_url}/"))

    def _authorise(self, call: Call, view: QueueView, action: str) -> None:
        if not call.policies_enforced:
            return
        facts = call_facts(call, self._clock.now_ms())
        for key, value in view.queue.tags.items():
            facts[f"aws:ResourceTag/{key}"] = value
        request = PolicyRequest(principal=call.caller, action=f"sqs:{action}", resource=view.arn, facts=facts)
        verdict = decide(view.policy, view.account, request)
        if verdict is Verdict.ALLOWED and action in OWNER_ONLY and call.caller.account != view.account:
            verdict = Verdict.NOT_ALLOWED
        if verdict is not Verdict.ALLOWED:
            address = queue_url(call, view.account, view.queue.name)
            raise RequestError("AccessDenied", sqs_refusal(verdict, request, address))


def _check_internal(call: Call, action: str) -> None:
    if call.caller.account != INTERNAL_ACCOUNT:
        raise no_such_queue()
    if action not in internal_queues.ACTIONS:
        raise RequestError("UnsupportedOperation", f"{action} cannot be used with an internal queue.")
