"""Pages of topics: list, create, show, publish, subscribe, unsubscribe, delete."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from fastapi import FastAPI, Request, Response

from cns_server.pages.context import PageContext, done
from cns_server.rest.models import NewNotification, NewSubscription, NewTopic, Subscription
from cns_server.rest.problems import Problem
from cns_server.rest.topics import TopicRoutes


class SubscriptionRow(NamedTuple):
    protocol: str
    endpoint: str
    confirmed: bool
    id: str  # the last part of its ARN


class TopicPages:
    def __init__(self, context: PageContext, topics: TopicRoutes) -> None:
        self._context = context
        self._topics = topics

    def add_to(self, app: FastAPI) -> None:
        topic = "/topics/{name}"
        app.add_api_route("/topics", self.list_topics, methods=["GET"])
        app.add_api_route("/topics", self.create, methods=["POST"])
        app.add_api_route(topic, self.show, methods=["GET"])
        app.add_api_route(topic + "/messages", self.publish, methods=["POST"])
        app.add_api_route(topic + "/subscriptions", self.subscribe, methods=["POST"])
        app.add_api_route(topic + "/subscriptions/{subscription}/delete", self.unsubscribe, methods=["POST"])
        app.add_api_route(topic + "/delete", self.delete, methods=["POST"])

    async def list_topics(self, request: Request, after: str = "") -> Response:
        session, rest = self._context.call(request)
        page = await self._topics.list_topics(rest, session.account, after)
        names = [arn.rpartition(":")[2] for arn in page.topics]
        return self._context.page(request, "topics.html", session, names=names, after=after, next=page.next)

    async def create(self, request: Request) -> Response:
        session, rest, form = await self._context.posted(request)
        name = form.text("name").strip()
        attributes = {"FifoTopic": "true"} if name.endswith(".fifo") else {}
        await self._topics.create_topic(rest, session.account, NewTopic(name=name, attributes=attributes))
        return done(_path(name), "created")

    async def show(self, request: Request, name: str, after: str = "") -> Response:
        session, rest = self._context.call(request)
        topic = await self._topics.show_topic(rest, session.account, name)
        page = await self._topics.list_topic_subscriptions(rest, session.account, name, after)
        rows = [_row(one) for one in page.subscriptions]
        values = {"topic": topic, "subscriptions": rows, "after": after, "next": page.next}
        return self._context.page(request, "topic.html", session, fifo=name.endswith(".fifo"), **values)

    async def publish(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        notification = NewNotification(
            message=form.text("message").replace("\r\n", "\n"),
            subject=form.optional("subject"),
            group_id=form.optional("group"),
            deduplication_id=form.optional("deduplication"),
        )
        await self._topics.publish_message(rest, session.account, name, notification)
        return done(_path(name), "published")

    async def subscribe(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        wanted = NewSubscription(protocol=form.text("protocol"), endpoint=form.text("endpoint").strip())
        await self._topics.create_subscription(rest, session.account, name, wanted)
        return done(_path(name), "subscribed")

    async def unsubscribe(self, request: Request, name: str, subscription: str) -> Response:
        session, rest, _ = await self._context.posted(request)
        await self._topics.delete_subscription(rest, session.account, name, subscription)
        return done(_path(name), "unsubscribed")

    async def delete(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        if form.text("sure") != "yes":
            raise Problem(400, "InvalidRequest", "Tick the box to confirm.")
        await self._topics.delete_topic(rest, session.account, name)
        return done("/ui/topics", "deleted")


def _row(subscription: Subscription) -> SubscriptionRow:
    confirmed = subscription.arn.startswith("arn:")
    return SubscriptionRow(subscription.protocol, subscription.endpoint, confirmed, subscription.arn.rpartition(":")[2])


def _path(name: str) -> str:
    return f"/ui/topics/{quote(name, safe='')}"
