"""Pages of queues: list, create, show, send, look at messages, purge, redrive, delete; live counts."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from fastapi import FastAPI, Request, Response

from cns.rest.models import BrowsedMessage, Statistics
from cns_common.errors import CnsError, RequestError
from cns_server.pages.context import PageContext, done
from cns_server.pages.live import live_response
from cns_server.pages.sources import EventReader, PageSources
from cns_server.pages.views import activity
from cns_server.pages.views.charts import charts
from cns_server.pages.views.queue_form import new_queue_attributes
from cns_server.rest.calls import RestCall
from cns_server.rest.messages import MessageRoutes
from cns_server.rest.models import NewMessage, NewQueue, NewRedrive, QueueChange
from cns_server.rest.problems import Problem
from cns_server.rest.queues import QueueRoutes

LISTED = 50


class QueueListRow(NamedTuple):
    name: str
    counts: Statistics | None  # None for a queue that was deleted meanwhile


class QueueMessageView(NamedTuple):
    message: BrowsedMessage
    notification_id: str  # '' if it is no notification
    cause: str  # why it is here, in a dead-letter queue


class QueuePages:
    def __init__(
        self,
        context: PageContext,
        queues: QueueRoutes,
        messages: MessageRoutes,
        sources: PageSources,
        reader: EventReader,
    ) -> None:
        self._context = context
        self._queues = queues
        self._messages = messages
        self._reader = reader
        self._clock = sources.backend.clock
        self._engines = sorted(sources.backend.engines)

    def add_to(self, app: FastAPI) -> None:
        queue = "/queues/{name}"
        app.add_api_route("/queues", self.list_queues, methods=["GET"])
        app.add_api_route("/queues", self.create, methods=["POST"])
        app.add_api_route(queue, self.show, methods=["GET"])
        app.add_api_route(queue + "/live", self.live, methods=["GET"])
        for action, work in (
            ("messages", self.send),
            ("purge", self.purge),
            ("redrive", self.redrive),
            ("redrive/cancel", self.cancel_redrive),
            ("attributes", self.set_attribute),
            ("delete", self.delete),
        ):
            app.add_api_route(f"{queue}/{action}", work, methods=["POST"])

    async def list_queues(self, request: Request, prefix: str = "", after: str = "") -> Response:
        session, rest = await self._context.call(request)
        page = await self._queues.list_queues(rest, session.account, prefix, after, LISTED)
        counts = await asyncio.gather(*[self._counts(rest, session.account, name) for name in page.queues])
        rows = [QueueListRow(name, counted) for name, counted in zip(page.queues, counts, strict=True)]
        values = {"rows": rows, "prefix": prefix, "after": after, "next": page.next, "engines": self._engines}
        return self._context.page(request, "queues.html", session, **values)

    async def create(self, request: Request) -> Response:
        session, rest, form = await self._context.posted(request)
        name = form.text("name").strip()
        attributes = new_queue_attributes(form, lambda queue: rest.queue_arn(session.account, queue))
        await self._queues.create_queue(rest, session.account, NewQueue(name=name, attributes=attributes), Response())
        return done(_path(name), "created")

    async def show(self, request: Request, name: str, after: str = "") -> Response:
        session, rest = await self._context.call(request)
        account = session.account
        queue = await self._queues.show_queue(rest, account, name)
        counts = await self._queues.queue_statistics(rest, account, name)
        messages = await self._messages.browse_messages(rest, account, name, after, LISTED)
        sources = (await self._queues.dead_letter_sources(rest, account, name)).queues
        recent = await self._reader.recent(session)
        buried = activity.dead_letter_causes(recent.events, queue.arn)
        redrives = (await self._queues.list_redrives(rest, account, name)).redrives if sources or buried else []
        return self._context.page(
            request,
            "queue.html",
            session,
            queue=queue,
            counts=counts,
            messages=[QueueMessageView(one, *activity.origin(one.body, buried)) for one in messages.messages],
            buried=bool(buried),
            charts=charts(activity.rates(recent.events, queue.arn), self._clock.now_ms()),
            after=after,
            next=messages.next,
            sources=sources,
            redrives=redrives,
            fifo=name.endswith(".fifo"),
        )

    async def live(self, request: Request, name: str) -> Response:
        """The queue's counts as server-sent events, while the page is open."""
        session, rest = await self._context.call(request)
        first = await self._queues.queue_statistics(rest, session.account, name)

        async def read() -> str | None:
            counts = await self._counts(rest, session.account, name)
            return None if counts is None else msgspec.json.encode(counts).decode()

        return live_response(request, self._context, session, msgspec.json.encode(first).decode(), read)

    async def send(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        message = NewMessage(
            body=form.text("body").replace("\r\n", "\n"),
            delay_seconds=form.number("delay"),
            group_id=form.optional("group"),
            deduplication_id=form.optional("deduplication"),
        )
        await self._messages.put_message(rest, session.account, name, message)
        return done(_path(name), "sent")

    async def purge(self, request: Request, name: str) -> Response:
        session, rest = await self._context.confirmed(request)
        await self._queues.purge_queue(rest, session.account, name)
        return done(_path(name), "purged")

    async def redrive(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        wanted = NewRedrive(destination_arn=form.optional("destination"), messages_per_second=form.number("rate"))
        await self._queues.start_redrive(rest, session.account, name, wanted)
        return done(_path(name), "redrive")

    async def cancel_redrive(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        handle = form.text("handle")
        running = (await self._queues.list_redrives(rest, session.account, name)).redrives
        if not handle or handle not in [redrive.handle for redrive in running]:
            raise Problem(404, "NoSuchRedrive", "The redrive has ended.")
        await self._queues.cancel_redrive(rest, session.account, name, handle)
        return done(_path(name), "cancelled")

    async def set_attribute(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        change = QueueChange(attributes={form.text("attribute").strip(): form.text("value").strip()})
        await self._queues.change_queue(rest, session.account, name, change)
        return done(_path(name), "saved")

    async def delete(self, request: Request, name: str) -> Response:
        session, rest = await self._context.confirmed(request)
        await self._queues.delete_queue(rest, session.account, name)
        return done("/ui/queues", "deleted")

    async def _counts(self, rest: RestCall, account: str, name: str) -> Statistics | None:
        """None for a queue that was deleted, or whose policy denies it."""
        try:
            return await self._queues.queue_statistics(rest, account, name)
        except (RequestError, Problem):
            return None
        except CnsError:
            return None


def _path(name: str) -> str:
    return f"/ui/queues/{quote(name, safe='')}"
