"""Checks of queues, topics and subscriptions: faults that prevent deliveries or repeat them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import msgspec

from cns.delivery.remote_queues import RemoteQueueResolver
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns_backend.backend import Backend
from cns_backend.explain.causes import NO_DEAD_LETTER_QUEUE, unprotected
from cns_backend.services import queue_service
from cns_cli.doctor.findings import CheckResult, ok, problem, shown, warning
from cns_cli.doctor.inventory import PAGE, Place, places, queue_names, topic_arns
from cns_cli.queue_policy import statement_for, with_statement
from cns_common.arn import parse_arn, queue_arn
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.configuration.settings import Settings
from cns_common.errors import RequestError
from cqs.queues.names import QueueKey
from cqs.queues.urls import key_of_arn
from cqs.queues.view import QueueView
from cqs.service import QueueService
from cqs.topic_sender import TopicSender

QUEUES_LOOKED_INTO_MAX = 1_000
MESSAGES_LOOKED_AT = 10
"""The number of visible messages that are checked in each queue."""


class MessagingCheck:
    """Reads all topics and queues once, and collects findings."""

    def __init__(self, settings: Settings, backend: Backend, service: QueueService) -> None:
        self._backend = backend
        self._service = service
        self._sender = TopicSender(service)
        self._remote = RemoteQueueResolver(settings.remote_queues)
        self._enforced = settings.auth == "on"
        self._looked_into = 0
        self.policies: list[CheckResult] = []
        self.unconfirmed: list[CheckResult] = []
        self.dead_letters: list[CheckResult] = []
        self.returned: list[CheckResult] = []
        self._unprotected: list[str] = []
        self.subscriptions = 0
        self.queues = 0

    async def read(self, found: Iterable[Place], each: Callable[[], None]) -> None:
        """`each` is called after each topic and queue."""
        for place in found:
            if place.account == INTERNAL_ACCOUNT:
                continue
            async for topic in topic_arns(self._backend, place):
                await self._topic(topic)
                each()
            async for name in queue_names(self._backend, place):
                await self._queue((place.account, place.region, name))
                each()

    def findings(self) -> list[CheckResult]:
        if self._unprotected:
            first, n = self._unprotected[0], len(self._unprotected)
            text = f"{n} {'subscription has' if n == 1 else 'subscriptions have'} {NO_DEAD_LETTER_QUEUE.title}: {first}"
            self.dead_letters.append(warning("dead-letter queues", text, NO_DEAD_LETTER_QUEUE.advice.format(first)))
        return [
            *shown(self.policies, ok("policies", f"{self.subscriptions} subscriptions: all queues accept their topic")),
            *shown(self.unconfirmed, ok("subscriptions", "all are confirmed")),
            *shown(self.dead_letters, ok("dead-letter queues", f"none is missing ({self.queues} queues)")),
            *shown(self.returned, ok("visibility", "no message seen that came back after its visibility timeout")),
        ]

    async def _topic(self, topic_arn: str) -> None:
        after = ""
        while True:
            page = await self._backend.subscriptions.page_of_topic(topic_arn, after, PAGE)
            for one in page:
                await self._subscription(one)
            if len(page) < PAGE:
                return
            after = page[-1].id

    async def _subscription(self, one: Subscription) -> None:
        if one.state is SubscriptionState.REMOVED:
            return
        self.subscriptions += 1
        if one.state is SubscriptionState.PENDING:
            text = f"{one.protocol} {one.endpoint} has not confirmed {one.arn}: it gets nothing"
            mend = f"open the link that it was sent, or subscribe again: {_subscribe(one)}"
            self.unconfirmed.append(warning("subscriptions", text, mend))
        elif one.protocol == "sqs" and (refusal := await self._refusal(one.endpoint, one.topic_arn)):
            text = f"{one.topic_arn} cannot send to {one.endpoint}: {refusal.message or refusal.code}"
            self.policies.append(problem("policies", text, await self._policy_mend(one.endpoint, one.topic_arn)))
        if unprotected(one.protocol, one.attributes):
            self._unprotected.append(one.arn)
        target = _dead_letter_target(one)
        if target and (refusal := await self._refusal(target, one.topic_arn)):
            text = f"{target} of subscription {one.arn} takes no dead letters: {refusal.message or refusal.code}"
            mend = await self._policy_mend(target, one.topic_arn)
            self.dead_letters.append(problem("dead-letter queues", text, mend))

    async def _refusal(self, arn: str, topic_arn: str) -> RequestError | None:
        if self._remote.find(arn) is not None:
            return None
        return await self._sender.refusal(arn, topic_arn=topic_arn, enforced=self._enforced)

    async def _policy_mend(self, arn: str, topic_arn: str) -> str:
        key = key_of_arn(arn)
        if key is None:
            return "subscribe a queue's ARN, as `cns queue show QUEUE` prints it"
        view = await self._service.cache.find(key)
        if view is None:
            return f"cns queue create {key[2]}"
        statement = statement_for(arn, topic_arn)
        if view.policy is not None:
            return f"add this statement to the queue's policy: {json.dumps(statement)}"
        return f"cns queue set {key[2]} 'Policy={with_statement('', statement)}'"

    async def _queue(self, key: QueueKey) -> None:
        view = await self._service.cache.find(key)
        if view is None:
            return  # deleted meanwhile
        self.queues += 1
        target = view.dead_letter_key
        if target is not None and await self._service.cache.find(target) is None:
            account, region, name = target
            missing = queue_arn(region, account, name)
            text = f"{missing} of {view.arn} does not exist: its messages are received without end"
            self.dead_letters.append(problem("dead-letter queues", text, f"cns queue create {name}"))
        if self._looked_into < QUEUES_LOOKED_INTO_MAX:
            self._looked_into += 1
            await self._look_for_returned(view)

    async def _look_for_returned(self, view: QueueView) -> None:
        """Find visible messages that were received before: their visibility timeout ended."""
        now_ms = self._service.clock.now_ms()
        page = await view.engine.peek(view.ref, "", MESSAGES_LOOKED_AT, now_ms)
        back = [one for one in page.messages if one.deliveries and one.visible_at_ms <= now_ms]
        if not back:
            return
        most, seconds = max(one.deliveries for one in back), view.visibility_ms // 1_000
        text = (
            f"{len(back)} of the first {len(page.messages)} messages of {view.arn} were received up to {most} times and"
            f" came back: its consumers failed, or needed longer than its visibility timeout of {seconds} s"
        )
        longer = max(30, seconds * 2)
        mend = f"let consumers delete what they did, or cns queue set {view.queue.name} VisibilityTimeout={longer}"
        self.returned.append(warning("visibility", text, mend))


async def check_messaging(
    settings: Settings, backend: Backend, regions: Iterable[str], each: Callable[[], None]
) -> list[CheckResult]:
    check = MessagingCheck(settings, backend, await queue_service(settings, backend))
    await check.read(await places(settings, backend, regions), each)
    return check.findings()


def _subscribe(one: Subscription) -> str:
    arn = parse_arn(one.topic_arn)
    return f"cns topic subscribe {arn.resource if arn else one.topic_arn} {one.protocol} {one.endpoint}"


def _dead_letter_target(one: Subscription) -> str:
    text = one.attributes.get("RedrivePolicy", "")
    if not text:
        return ""
    target: object = msgspec.json.decode(text).get("deadLetterTargetArn")
    return str(target or "")
