"""Pages of published messages: the latest ones, and what became of one; failed deliveries by cause."""

from __future__ import annotations

import re
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from cns.delivery.target import target_of
from cns_backend.explain.collect import Question, explain
from cns_backend.explain.model import DeliveryStatus, Explanation
from cns_common.arn import parse_arn
from cns_server.pages.context import PageContext, is_topic
from cns_server.pages.sessions import Session
from cns_server.pages.sources import EventReader, PageSources
from cns_server.pages.topics import topic_path
from cns_server.pages.views import activity, causes
from cns_server.pages.views.causes import Why, throttled
from cns_server.pages.views.message_view import view_of
from cns_server.rest.calls import RestCall
from cns_server.rest.problems import Problem
from cns_server.rest.queues import QueueRoutes
from cns_server.rest.topics import TopicRoutes

ARN_CHARS_MAX = 500
MESSAGE_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GROUPS = ("endpoint", "topic", "subscription")
TOPIC_PAGES_READ_MAX = 10
"""Pages of 100 topics that a search looks through."""
FOUND_SHOWN_MAX = 50
WAITS_READ_MAX = 100
SUBSCRIPTIONS_READ_MAX = 2_000
"""The subscriptions of its topic that the page of a message reads, so that it opens at once. Any other can be asked for
by its ARN."""


class MessagePages:
    def __init__(
        self,
        context: PageContext,
        sources: PageSources,
        reader: EventReader,
        topics: TopicRoutes,
        queues: QueueRoutes,
    ) -> None:
        self._context = context
        self._backend = sources.backend
        self._reader = reader
        self._topics = topics
        self._queues = queues

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/search", self.search, methods=["GET"])
        app.add_api_route("/messages", self.list_messages, methods=["GET"])
        app.add_api_route("/messages/{message_id}", self.show, methods=["GET"])
        app.add_api_route("/deliveries", self.deliveries, methods=["GET"])

    async def search(self, request: Request, q: str = "") -> Response:
        """A message id, an ARN, or the beginning of a queue's or topic's name."""
        session, rest = await self._context.call(request)
        text = q.strip()
        if MESSAGE_ID.fullmatch(text.lower()):
            return RedirectResponse(f"/ui/messages/{text.lower()}", 303)
        if text.startswith("arn:"):
            return RedirectResponse(_page_of(text, session), 303)
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,256}", text):
            raise Problem(400, "InvalidRequest", "Give a message id, an ARN, or the beginning of a name.")
        topics: list[str] = []
        after: str | None = ""
        for _ in range(TOPIC_PAGES_READ_MAX):
            page = await self._topics.list_topics(rest, session.account, after or "")
            names = [arn.rpartition(":")[2] for arn in page.topics]
            topics += [name for name in names if name.startswith(text)]
            after = page.next
            if not after:
                break
        if not topics:
            return RedirectResponse(f"/ui/queues?prefix={text}", 303)
        queues = (await self._queues.list_queues(rest, session.account, text, "", FOUND_SHOWN_MAX)).queues
        if not queues and len(topics) == 1:
            return RedirectResponse(topic_path(topics[0]), 303)
        found = {"text": text, "queues": queues, "topics": topics[:FOUND_SHOWN_MAX]}
        return self._context.page(request, "search.html", session, **found)

    async def list_messages(self, request: Request, topic: str = "") -> Response:
        session, rest = await self._context.call(request)
        self._context.check_account(rest)
        arn = (await self._topics.show_topic(rest, session.account, topic)).arn if topic else ""
        recent = await self._reader.recent(session)
        rows = activity.messages(await self._context.seen(rest, recent.events), arn)
        return self._context.page(request, "messages.html", session, rows=rows, topic=topic, since_ms=recent.since_ms)

    async def deliveries(self, request: Request, by: str = GROUPS[0]) -> Response:
        session, rest = await self._context.call(request)
        self._context.check_account(rest)
        if by not in GROUPS:
            raise Problem(400, "InvalidRequest", f"Failures are shown by {', '.join(GROUPS)}.")
        recent = await self._reader.recent(session)
        events = await self._context.seen(rest, recent.events)
        return self._context.page(
            request,
            "deliveries.html",
            session,
            rows=activity.failures(events, by),
            figures=activity.figures(events),
            by=by,
            groups=GROUPS,
            since_ms=recent.since_ms,
        )

    async def show(self, request: Request, message_id: str, subscription: str = "") -> Response:
        session, rest = await self._context.call(request)
        self._context.check_account(rest)
        if MESSAGE_ID.fullmatch(message_id) is None:
            raise Problem(404, "NoSuchMessage", f"{message_id:.80} is not a message id.")
        if subscription and (len(subscription) > ARN_CHARS_MAX or parse_arn(subscription) is None):
            raise Problem(400, "InvalidRequest", "A subscription is asked for by its ARN.")
        question = Question(message_id, subscription=subscription, subscriptions_max=SUBSCRIPTIONS_READ_MAX, quick=True)
        async with self._reader.room(session.account):
            found = await explain(self._backend, self._reader.source, question)
        if not found.known or not await self._may_see(rest, session, found):
            raise Problem(404, "NoSuchMessage", f"Nothing is known of a message {message_id}.")
        if subscription and not subscription.startswith(f"{found.topic}:"):
            raise Problem(404, "NoSuchSubscription", "The subscription is not one of the message's topic.")
        view = view_of(found, await self._waits(found))
        return self._context.page(request, "message.html", session, id=message_id, message=view, found=found)

    async def _may_see(self, rest: RestCall, session: Session, found: Explanation) -> bool:
        """Whether the caller's account owns the topic and REST shows its deliveries to the caller, or published to a
        phone number."""
        arn = parse_arn(found.topic)
        if arn is None:
            publisher = found.accepted.account if found.accepted is not None else ""
            attempts = [attempt.account for one in found.histories for attempt in one.attempts]
            return session.account in (publisher, *attempts)
        if (arn.account, arn.region) != (session.account, session.region):
            return False
        return not is_topic(found.topic) or await self._context.sees_deliveries(rest, found.topic)

    async def _waits(self, found: Explanation) -> dict[str, Why]:
        """Why throttled and paused subscriptions wait, by ARN."""
        waiting = [one.subscription for one in found.histories if one.status is DeliveryStatus.WAITING]
        arns = [arn for arn in waiting if arn][:WAITS_READ_MAX]
        if not arns:
            return {}
        topic = await self._backend.topics.get(found.topic)
        targets = [target_of(one, topic) for one in await self._backend.subscriptions.get(arns)]
        paused = {one.arn: causes.PAUSED for one in targets if one.paused}
        return {one.arn: throttled(one.receives_per_second) for one in targets if one.receives_per_second} | paused


def _page_of(text: str, session: Session) -> str:
    """The page of a queue, topic or subscription of the person's account and region. Raises Problem 404 for others."""
    arn = parse_arn(text)
    if arn is not None and (arn.account, arn.region) == (session.account, session.region):
        name, _, subscription = arn.resource.partition(":")
        if arn.service == "sqs":
            return f"/ui/queues/{quote(name, safe='')}"
        if arn.service == "sns" and "/" not in name:
            return topic_path(name) + (f"/subscriptions/{quote(subscription, safe='')}" if subscription else "")
    raise Problem(404, "NoSuchPage", "No page of this account and region is about this ARN.")
