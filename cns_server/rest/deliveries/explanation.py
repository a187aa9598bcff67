"""The fate of a published message: for callers that may see its topic, or published it to no topic."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Protocol

import msgspec
from fastapi import APIRouter, Query

from cns_backend.backend import Backend
from cns_backend.explain.collect import Question, explain
from cns_backend.explain.gaps import EventDirectories
from cns_backend.explain.model import Explanation
from cns_common.arn import parse_arn
from cns_common.errors import RequestError
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.deliveries.routes import MessageId
from cns_server.rest.dependencies import Begun
from cns_server.rest.problems import Problem
from cns_server.rest.queues import AccountId

ARN_CHARS_MAX = 500
SUBSCRIPTIONS_READ_MAX = 2_000
"""The subscriptions of its topic that are read, so that the answer comes at once. Any other can be asked for by its
ARN."""
SubscriptionQuery = Annotated[str, Query(alias="subscription", description="The ARN of one subscription.")]


class SearchRoom(Protocol):
    """The events of this process, and the turn of an account to search them."""

    @property
    def source(self) -> EventDirectories: ...

    def room(self, account: str) -> AbstractAsyncContextManager[None]: ...


class ExplanationRoutes:
    def __init__(self, calls: RestCalls, backend: Backend, searches: SearchRoom) -> None:
        self._calls = calls
        self._backend = backend
        self._searches = searches

    def add_to(self, router: APIRouter) -> None:
        router.add_api_route("/accounts/{account}/messages/{message}", self.explain_message, methods=["GET"])

    async def explain_message(
        self, rest: Begun, account: AccountId, message: MessageId, subscription: SubscriptionQuery = ""
    ) -> dict[str, Any]:
        """The fate of a published message, as `cns explain --json` prints it."""
        self._calls.check(rest, "sns:ListSubscriptionsByTopic", account=account)
        self._calls.check_own(rest, account)
        plain: dict[str, Any] = msgspec.to_builtins(await self.explained(rest, message, subscription))
        return plain

    async def explained(self, rest: RestCall, message: str, subscription: str) -> Explanation:
        """Raises Problem for a message that is not known, or that the caller may not see."""
        account = rest.principal.caller.account
        if subscription and (len(subscription) > ARN_CHARS_MAX or parse_arn(subscription) is None):
            raise Problem(400, "InvalidRequest", "A subscription is asked for by its ARN.")
        question = Question(message, subscription=subscription, subscriptions_max=SUBSCRIPTIONS_READ_MAX, quick=True)
        async with self._searches.room(account):
            found = await explain(self._backend, self._searches.source, question)
        if not found.known or not await self._may_see(rest, account, found):
            raise Problem(404, "NoSuchMessage", f"Nothing is known of a message {message}.")
        if subscription and not subscription.startswith(f"{found.topic}:"):
            raise Problem(404, "NoSuchSubscription", "The subscription is not one of the message's topic.")
        return found

    async def _may_see(self, rest: RestCall, account: str, found: Explanation) -> bool:
        """Whether the caller owns the topic, or published to a phone number, as far as the topic's policy allows it."""
        arn = parse_arn(found.topic)
        if arn is None or arn.resource.startswith("endpoint/"):
            self._calls.check(rest, "sns:Publish", account=account)
        if arn is None:
            publisher = found.accepted.account if found.accepted is not None else ""
            return account in (publisher, *[attempt.account for one in found.histories for attempt in one.attempts])
        if (arn.account, arn.region) != (account, rest.region):
            return False
        if arn.resource.startswith("endpoint/"):
            return True
        try:
            for action in ("sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic"):
                await self._calls.run(rest, action, {"TopicArn": found.topic}, account=account)
        except RequestError as error:
            return error.code == "NotFound" and rest.principal.caller.root  # deleted since, with its policy
        return True
