"""Pages of published messages: the latest ones, and what became of one; failed deliveries by cause."""

from __future__ import annotations

import re
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from cns_common.arn import parse_arn
from cns_server.pages.context import PageContext
from cns_server.pages.sessions import Session
from cns_server.pages.sources import EventReader
from cns_server.pages.topics import topic_path
from cns_server.pages.views import activity
from cns_server.pages.views.message_view import view_of
from cns_server.rest.deliveries.explanation import ExplanationRoutes
from cns_server.rest.problems import Problem
from cns_server.rest.queues import QueueRoutes
from cns_server.rest.topics import TopicRoutes

MESSAGE_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GROUPS = ("endpoint", "topic", "subscription")
TOPIC_PAGES_READ_MAX = 10
"""Pages of 100 topics that a search looks through."""
FOUND_SHOWN_MAX = 50


class MessagePages:
    def __init__(
        self,
        context: PageContext,
        reader: EventReader,
        topics: TopicRoutes,
        queues: QueueRoutes,
        explanations: ExplanationRoutes,
    ) -> None:
        self._context = context
        self._reader = reader
        self._topics = topics
        self._queues = queues
        self._explanations = explanations

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
        found = await self._explanations.explained(rest, message_id, subscription)
        view = view_of(found)
        return self._context.page(request, "message.html", session, id=message_id, message=view, found=found)


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
