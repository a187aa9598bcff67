"""Pages of queues: list, create, show, send, look at messages, purge, redrive, delete; live counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from cns_common.errors import CnsError, RequestError
from cns_server.pages.context import PageContext, done
from cns_server.rest.calls import RestCall
from cns_server.rest.messages import MessageRoutes
from cns_server.rest.models import NewMessage, NewQueue, NewRedrive, QueueChange, Statistics
from cns_server.rest.problems import Problem
from cns_server.rest.queues import QueueRoutes

LISTED = 50
LIVE_INTERVAL_S = 2.0
LIVE_S_MAX = 600
"""A page that stays open connects again."""


class QueueRow(NamedTuple):
    name: str
    counts: Statistics | None  # None for a queue that was deleted meanwhile


class QueuePages:
    def __init__(self, context: PageContext, queues: QueueRoutes, messages: MessageRoutes) -> None:
        self._context = context
        self._queues = queues
        self._messages = messages

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
            ("attributes", self.set_attribute),
            ("delete", self.delete),
        ):
            app.add_api_route(f"{queue}/{action}", work, methods=["POST"])

    async def list_queues(self, request: Request, prefix: str = "", after: str = "") -> Response:
        session, rest = self._context.call(request)
        page = await self._queues.list_queues(rest, session.account, prefix, after, LISTED)
        counts = await asyncio.gather(*[self._counts(rest, session.account, name) for name in page.queues])
        rows = [QueueRow(name, counted) for name, counted in zip(page.queues, counts, strict=True)]
        values = {"rows": rows, "prefix": prefix, "after": after, "next": page.next}
        return self._context.page(request, "queues.html", session, **values)

    async def create(self, request: Request) -> Response:
        session, rest, form = await self._context.posted(request)
        name = form.text("name").strip()
        attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        if visibility := form.optional("visibility"):
            attributes["VisibilityTimeout"] = visibility
        await self._queues.create_queue(rest, session.account, NewQueue(name=name, attributes=attributes), Response())
        return done(_path(name), "created")

    async def show(self, request: Request, name: str, after: str = "") -> Response:
        session, rest = self._context.call(request)
        account = session.account
        queue = await self._queues.show_queue(rest, account, name)
        counts = await self._queues.queue_statistics(rest, account, name)
        messages = await self._messages.browse_messages(rest, account, name, after, LISTED)
        sources = (await self._queues.dead_letter_sources(rest, account, name)).queues
        redrives = (await self._queues.list_redrives(rest, account, name)).redrives if sources else []
        return self._context.page(
            request,
            "queue.html",
            session,
            queue=queue,
            counts=counts,
            messages=messages.messages,
            after=after,
            next=messages.next,
            sources=sources,
            redrives=redrives,
            fifo=name.endswith(".fifo"),
        )

    async def live(self, request: Request, name: str) -> Response:
        """The queue's counts as server-sent events, while the page is open."""
        session, rest = self._context.call(request)
        first = await self._queues.queue_statistics(rest, session.account, name)

        async def events() -> AsyncIterator[str]:
            counts: Statistics | None = first
            shown = ""
            for _ in range(int(LIVE_S_MAX / LIVE_INTERVAL_S)):
                if counts is None or self._context.leaving or await request.is_disconnected():
                    return
                text = counts.model_dump_json(by_alias=True)
                if text != shown:
                    yield f"data: {text}\n\n"
                    shown = text
                await asyncio.sleep(LIVE_INTERVAL_S)
                counts = await self._counts(rest, session.account, name)

        return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})

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
        session, rest, form = await self._context.posted(request)
        _check_sure(form.text("sure"))
        await self._queues.purge_queue(rest, session.account, name)
        return done(_path(name), "purged")

    async def redrive(self, request: Request, name: str) -> Response:
        session, rest, _ = await self._context.posted(request)
        await self._queues.start_redrive(rest, session.account, name, NewRedrive(destination_arn=None))
        return done(_path(name), "redrive")

    async def set_attribute(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        change = QueueChange(attributes={form.text("attribute").strip(): form.text("value").strip()})
        await self._queues.change_queue(rest, session.account, name, change)
        return done(_path(name), "saved")

    async def delete(self, request: Request, name: str) -> Response:
        session, rest, form = await self._context.posted(request)
        _check_sure(form.text("sure"))
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


def _check_sure(text: str) -> None:
    if text != "yes":
        raise Problem(400, "InvalidRequest", "Tick the box to confirm.")
