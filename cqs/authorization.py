"""Finds the queue that a call names and checks that the caller may do the action there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from cns_common.aws.call import INTERNAL_ACCOUNT, Call, Params
from cns_common.aws.policy.evaluation import PolicyRequest, PolicyVerdict, decide, sqs_refusal
from cns_common.aws.policy.request_context import call_facts
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cqs import internal_queues
from cqs.queues.cache import QueueCache
from cqs.queues.names import QueueKey
from cqs.queues.permissions import OWNER_ONLY
from cqs.queues.urls import addressed_queue, no_such_queue, queue_key, queue_url
from cqs.queues.view import QueueView

ReadAddress = Callable[[Call, str | None], QueueKey]
"""Reads a queue's key from a QueueUrl or, without one, from the path of the call."""


class QueueAccess:
    def __init__(self, cache: QueueCache, clock: Clock, address: ReadAddress = addressed_queue) -> None:
        self._cache = cache
        self._clock = clock
        self._address = address

    def queue(self, call: Call, params: Params, action: str) -> Coroutine[Any, Any, QueueView]:
        """The queue that a request names by its QueueUrl or path. Raises RequestError if it does not exist or the
        caller may not do `action` there."""
        try:
            key = self._address(call, params.get("QueueUrl"))
        except RequestError as error:
            raise _hide_from_anonymous(call, f"{call.base_url}{call.path}", error) from None
        return self.queue_by_key(call, key, action)

    def queue_by_name(self, call: Call, account: str, name: str, action: str) -> Coroutine[Any, Any, QueueView]:
        """Like `queue`, by account and queue name."""
        try:
            key = queue_key(call, account, name)
        except RequestError as error:
            raise _hide_from_anonymous(call, f"{call.base_url}{call.path}", error) from None
        return self.queue_by_key(call, key, action)

    async def queue_by_key(self, call: Call, key: QueueKey, action: str) -> QueueView:
        view = self._cache.cached(key) or await self._cache.find(key)
        if view is None:
            raise _hide_from_anonymous(call, queue_url(call, key), no_such_queue())
        if view.internal:
            _check_internal(call, action)
        if view.policy is not None or call.caller.account != view.account or call.caller.service:
            self._authorise(call, view, action)  # without a policy, the owner's own calls are always allowed
        return view

    async def verdict(self, call: Call, key: QueueKey, action: str) -> tuple[QueueView | None, PolicyVerdict]:
        """The queue and the decision of its policy, without raising AccessDenied."""
        view = await self._cache.find(key)
        if view is None:
            return None, PolicyVerdict.NOT_ALLOWED
        return view, decide(view.policy, view.account, self._request(call, view, action))

    def own_account(self, call: Call, action: str) -> str:
        """The account in which the caller creates and lists queues: its own. Raises AccessDenied for a caller without
        an account."""
        caller = call.caller
        if caller.account and not caller.service:
            return caller.account
        request = PolicyRequest(principal=caller, action=f"sqs:{action}", resource="*")
        raise RequestError("AccessDenied", sqs_refusal(PolicyVerdict.NOT_ALLOWED, request, f"{call.base_url}/"))

    def _authorise(self, call: Call, view: QueueView, action: str) -> None:
        if not call.policies_enforced:
            return
        request = self._request(call, view, action)
        verdict = decide(view.policy, view.account, request)
        if verdict is PolicyVerdict.ALLOWED and action in OWNER_ONLY and call.caller.account != view.account:
            verdict = PolicyVerdict.NOT_ALLOWED
        if verdict is not PolicyVerdict.ALLOWED:
            address = queue_url(call, view.queue.key)
            raise RequestError("AccessDenied", sqs_refusal(verdict, request, address))

    def _request(self, call: Call, view: QueueView, action: str) -> PolicyRequest:
        facts = call_facts(call, self._clock.now_ms())
        for key, value in view.queue.tags.items():
            facts[f"aws:ResourceTag/{key}"] = value
        return PolicyRequest(principal=call.caller, action=f"sqs:{action}", resource=view.arn, facts=facts)


def _hide_from_anonymous(call: Call, address: str, error: RequestError) -> RequestError:
    """Replace an error about a queue's address by AccessDenied for anonymous callers: they must not learn which queues
    exist."""
    if call.caller.anonymous and call.policies_enforced:
        return RequestError("AccessDenied", f"Access to the resource {address} is denied.")
    return error


def _check_internal(call: Call, action: str) -> None:
    if call.caller.account != INTERNAL_ACCOUNT:
        raise no_such_queue()
    if action not in internal_queues.ACTIONS:
        raise RequestError("UnsupportedOperation", f"{action} cannot be used with an internal queue.")
