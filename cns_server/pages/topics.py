"""Pages of topics: list, create, show, publish, subscribe, unsubscribe, delete."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from fastapi import FastAPI, Request, Response

from cns.protocols.table import PROTOCOLS
from cns.rest.models import Subscription
from cns_server.pages.context import PageContext, done
from cns_server.pages.sources import EventReader
from cns_server.pages.views import activity
from cns_server.pages.views.filter_trial import SCOPES, TRIAL_FIELDS, Trial, read_attributes, try_policy
from cns_server.rest.models import NewMessageAttribute, NewNotification, NewSubscription, NewTopic
from cns_server.rest.problems import Problem
from cns_server.rest.topics import TopicRoutes

MESSAGES_SHOWN = 10


class SubscriptionRow(NamedTuple):
    protocol: str
    endpoint: str
    confirmed: bool
    id: str  # the last part of its ARN


class TopicPages:
    def __init__(self, context: PageContext, topics: TopicRoutes, reader: EventReader) -> None:
        self._context = context
        self._topics = topics
        self._reader = reader

    def add_to(self, app: FastAPI) -> None:
        topic = "/topics/{name}"
        app.add_api_route("/topics", self.list_topics, methods=["GET"])
        app.add_api_route("/topics", self.create, methods=["POST"])
        app.add_api_route(topic, self.show, methods=["GET"])
        app.add_api_route(topic + "/trial", self.try_filter, methods=["POST"])
        app.add_api_route(topic + "/messages", self.publish, methods=["POST"])
        app.add_api_route(topic + "/subscriptions", self.subscribe, methods=["POST"])
        app.add_api_route(topic + "/subscriptions/{subscription}/delete", self.unsubscribe, methods=["POST"])
        app.add_api_route(topic + "/delete", self.delete, methods=["POST"])

    async def list_topics(self, request: Request, after: str = "") -> Response:
        session, rest = await self._context.call(request)
        page = await self._topics.list_topics(rest, session.account, after)
        names = [arn.rpartition(":")[2] for arn in page.topics]
        return self._context.page(request, "topics.html", session, names=names, after=after, next=page.next)

    async def create(self, request: Request) -> Response:
        session, rest, form = await self._context.posted(request)
        name = form.text("name").strip()
        attributes = {"FifoTopic": "true"} if name.endswith(".fifo") else {}
        await self._topics.create_topic(rest, session.account, NewTopic(name=name, attributes=attributes))
        return done(topic_path(name), "created")

    async def show(self, request: Request, name: str, after: str = "") -> Response:
        return await self._page(request, name, after, None, {})

    async def try_filter(self, request: Request, name: str) -> Response:
        """Shows whether a policy matches a message; changes nothing."""
        _, _, form = await self._context.posted(request)
        given = {field: form.text(field) for field in TRIAL_FIELDS}
        return await self._page(request, name, "", try_policy(*[given[field] for field in TRIAL_FIELDS]), given)

    async def _page(
        self, request: Request, name: str, after: str, trial: Trial | None, given: dict[str, str]
    ) -> Response:
        session, rest = await self._context.call(request)
        topic = await self._topics.show_topic(rest, session.account, name)
        page = await self._topics.list_topic_subscriptions(rest, session.account, name, after)
        recent = await self._reader.recent(session)
        return self._context.page(
            request,
            "topic.html",
            session,
            topic=topic,
            protocols=[one.name for one in PROTOCOLS.values() if one.in_console],
            subscriptions=[_row(one) for one in page.subscriptions],
            after=after,
            next=page.next,
            fifo=name.endswith(".fifo"),
            figures=activity.figures(recent.events, topic.arn),
            rows=activity.messages(recent.events, topic.arn)[:MESSAGES_SHOWN],
            since_ms=recent.since_ms,
            trial=trial,
            given={**dict.fromkeys(TRIAL_FIELDS, ""), **given},
            scopes=SCOPES,
        )

    async def publish(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        notification = NewNotification(
            message=form.text("message").replace("\r\n", "\n"),
            subject=form.optional("subject"),
            attributes=_attributes(form.text("attributes")),
            group_id=form.optional("group"),
            deduplication_id=form.optional("deduplication"),
        )
        published = await self._topics.publish_message(rest, session.account, name, notification)
        followed = self._reader.source.written  # without events little is known of a message
        return done(f"/ui/messages/{published.message_id}" if followed else topic_path(name), "published")

    async def subscribe(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        policy = form.optional("policy")
        wanted = NewSubscription(
            protocol=form.text("protocol"),
            endpoint=form.text("endpoint").strip(),
            attributes={} if policy is None else {"FilterPolicy": policy},
        )
        made = await self._topics.create_subscription(rest, session.account, name, wanted)
        warned = "refused" if wanted.protocol == "sqs" else "unprotected"
        return done(topic_path(name), warned if made.warnings else "subscribed")

    async def unsubscribe(self, request: Request, name: str, subscription: str) -> Response:
        session, rest = await self._context.confirmed(request)
        await self._topics.delete_subscription(rest, session.account, name, subscription)
        return done(topic_path(name), "unsubscribed")

    async def delete(self, request: Request, name: str) -> Response:
        session, rest = await self._context.confirmed(request)
        await self._topics.delete_topic(rest, session.account, name)
        return done("/ui/topics", "deleted")


def _attributes(text: str) -> dict[str, NewMessageAttribute]:
    try:
        given = read_attributes(text)
    except ValueError as error:
        raise Problem(400, "InvalidRequest", str(error)) from None
    return {
        name: NewMessageAttribute(data_type=data_type, string_value=value, binary_value=None)
        for name, (data_type, value) in given.items()
    }


def _row(subscription: Subscription) -> SubscriptionRow:
    confirmed = subscription.arn.startswith("arn:")
    return SubscriptionRow(subscription.protocol, subscription.endpoint, confirmed, subscription.arn.rpartition(":")[2])


def topic_path(name: str) -> str:
    return f"/ui/topics/{quote(name, safe='')}"
