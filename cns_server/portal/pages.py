"""The pages of the portal: one subscription, its deliveries, and what its endpoint's owner may do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from cns.archives.replay_jobs import wanted_by
from cns.delivery.endpoint_names import shown_endpoint
from cns.delivery.signing import certificate_name
from cns.delivery.target import Target, target_of
from cns.delivery.webhook_secrets import OVERLAP_MS, WebhookSecrets, secret_state
from cns.portal.owner_acts import OwnerActs
from cns.portal.retry_sender import RetrySender
from cns.protocols.table import find_protocol
from cns.subscriptions.endpoint_syntax import masked_endpoint
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns_backend.backend import Backend
from cns_backend.stores.contract import OpenBreaker
from cns_common.activity.record import Actor
from cns_common.activity.recorder import ActRecorder
from cns_common.events.recent_events import ALL, NewestEvents, field, newest_events
from cns_common.ids import uuid_text
from cns_server.pages.context import FIELDS_MAX, Form, check_sure, done
from cns_server.pages.rendering import Templates
from cns_server.pages.sessions import FORM_FIELD, check_form
from cns_server.pages.sources import EventReader
from cns_server.pages.views import activity
from cns_server.paths import PORTAL_PREFIX
from cns_server.portal.deliveries import retriable, rows_of, wanted_again
from cns_server.portal.past_messages import ListedLetters, PastMessages
from cns_server.portal.sessions import Visit, Visits
from cns_server.rest.deliveries.routes import about
from cns_server.rest.problems import Problem

EVENTS_READ = 500
LETTERS_SHOWN_MAX = 50
RETRIES_PER_S = 2
"""The rate of retries of one subscription, over all processes."""
HOME = f"{PORTAL_PREFIX}/"
Done = TypeVar("Done")
_MESSAGE_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalParts:
    """The dependencies of the pages."""

    visits: Visits
    acts: OwnerActs
    retries: RetrySender
    past: PastMessages
    secrets: WebhookSecrets
    backend: Backend
    reader: EventReader
    recorder: ActRecorder
    base_url: str
    """The beginning of the certificate's URL in notifications."""


class PortalPages:
    def __init__(self, parts: PortalParts, templates: Templates) -> None:
        self._parts = parts
        self._clock = parts.backend.clock
        self._templates = templates

    def add_to(self, app: FastAPI) -> None:
        add = app.add_api_route
        add("/open", self.open, methods=["GET"])
        add("/", self.show, methods=["GET"])
        add("/pause", self.pause, methods=["POST"])
        add("/resume", self.resume, methods=["POST"])
        add("/retry", self.retry, methods=["POST"])
        add("/secret", self.show_secret, methods=["POST"])
        add("/secret/rotate", self.rotate_secret, methods=["POST"])
        add("/leave", self.leave, methods=["POST"])

    async def open(self, request: Request, link: str = "") -> Response:
        """Exchange a link for a visit. The page that follows has no token in its address."""
        response = RedirectResponse(HOME, 303, {"referrer-policy": "no-referrer", "cache-control": "no-store"})
        await self._parts.visits.begin(link, response, secure=self._secure(request))
        return response

    def _secure(self, request: Request) -> bool:
        """Whether browsers reach the service by TLS, which a proxy may end."""
        return request.url.scheme == "https" or self._parts.base_url.startswith("https:")

    async def show(self, request: Request) -> Response:
        return await self._page(request, await self._parts.visits.find(request))

    async def leave(self, request: Request) -> Response:
        await self._posted(request)
        response = self._templates.page(request, "portal_left.html", None)
        self._parts.visits.end(response)
        return response

    # -- acts ---------------------------------------------------------------------------------------------------------

    async def pause(self, request: Request) -> Response:
        visit, _ = await self._posted(request)
        if visit.subscription.state is not SubscriptionState.CONFIRMED:
            raise Problem(409, "NotConfirmed", "Only a confirmed subscription gets messages that can be held.")
        await self._act(request, visit, "PauseDeliveries", self._parts.acts.pause(visit.subscription))
        return done(HOME, "paused")

    async def resume(self, request: Request) -> Response:
        visit, _ = await self._posted(request)
        await self._act(request, visit, "ResumeDeliveries", self._parts.acts.resume(visit.subscription))
        return done(HOME, "resumed")

    async def retry(self, request: Request) -> Response:
        """Send a message again whose delivery failed for good, from the topic's archive or the dead-letter queue, where
        it stays."""
        visit, form = await self._posted(request)
        message_id = form.text("message")
        if not _MESSAGE_ID.fullmatch(message_id):
            raise Problem(400, "InvalidRequest", "There is no such message.")
        grant = await self._parts.backend.rates.take_tokens(f"portal {visit.subscription.arn}", RETRIES_PER_S, 1)
        if not grant.tokens:
            raise Problem(429, "TooManyRetries", f"At most {RETRIES_PER_S} retries a second. Try again in a moment.")
        found = await self._events(visit.subscription, field("message_id", message_id))
        wanted = wanted_again(await self._target(visit.subscription), message_id, found.events)
        if wanted is None:
            raise Problem(409, "NotFailed", "This message has not failed for good, so there is nothing to retry.")
        async with self._parts.reader.room(visit.subscription.arn):
            notification = await self._parts.past.find(wanted)
        if notification is None:
            text = (
                "The message is kept nowhere any more: neither in an archive of its topic nor, whole and signed, in a "
                "dead-letter queue. Messages of FIFO topics and those with attributes are sent again from an archive."
            )
            raise Problem(410, "MessageGone", text)
        if not wanted_by(visit.subscription, [notification]):
            text = "The subscription's filter policy does not let this message through."
            raise Problem(409, "NotWanted", text)
        work = self._parts.retries.send(visit.subscription, notification)
        await self._act(request, visit, "RetryDelivery", work, f"message {message_id}")
        return done(HOME, "retried")

    async def show_secret(self, request: Request) -> Response:
        visit, _ = await self._posted(request)
        page = self._page(request, visit, reveal=True)
        if not secret_state(visit.subscription).number:  # there is none
            return await page
        return await self._act(request, visit, "RevealWebhookSecret", page)

    async def rotate_secret(self, request: Request) -> Response:
        """The answer shows the secret, so it is no redirection. Repeated, it does not rotate again."""
        visit, form = await self._posted(request)
        number = form.number("number") or 0
        if number:
            check_sure(form)
        work = self._parts.acts.rotate_secret(visit.subscription, number)
        await self._act(request, visit, "RotateWebhookSecret", work)
        return await self._page(request, await self._parts.visits.find(request), reveal=True)

    async def _act(self, request: Request, visit: Visit, action: str, work: Awaitable[Done], detail: str = "") -> Done:
        """The result of `work`, recorded as an act of the link's holder."""
        actor = Actor(
            via="portal",
            account=visit.subscription.owner,
            principal=f"cns:portal/{visit.opened.link.id}",
            address=request.client.host if request.client else "",
            request_id=uuid_text(),
        )
        return await self._parts.recorder.run(actor, f"cns:{action}", work, visit.subscription.arn, detail)

    # -- the page -----------------------------------------------------------------------------------------------------

    async def _posted(self, request: Request) -> tuple[Visit, Form]:
        """The visit of a posted form. Raises Problem 403 for another's form."""
        visit = await self._parts.visits.find(request)
        form = Form(await request.form(max_files=0, max_fields=FIELDS_MAX))
        check_form(request, visit, form.text(FORM_FIELD))
        return visit, form

    async def _page(self, request: Request, visit: Visit, *, reveal: bool = False) -> HTMLResponse:
        subscription = visit.subscription
        target = await self._target(subscription)
        found = await self._events(subscription, field("subscription", subscription.arn))
        rows = rows_of(found.events)
        known = {row.message_id for row in rows}
        listed = await self._letters(target)
        topic = await self._parts.backend.topics.get(subscription.topic_arn)
        return self._templates.page(
            request,
            "portal.html",
            visit,
            subscription=subscription,
            topic=target.display_name or subscription.topic_arn.rpartition(":")[2],
            endpoint=masked_endpoint(subscription.endpoint),
            expires_ms=visit.opened.link.expires_ms,
            breaker=await self._breaker(target),
            rate=target.receives_per_second,
            now_ms=self._clock.now_ms(),
            rows=rows,
            retriable=retriable(
                rows,
                archived=topic is not None and topic.archive is not None,
                in_queue={one.message_id for one in listed.letters},
                read_whole=target.dead_letter_arn if listed.all_read else "",
            ),
            letters=[one for one in listed.letters if one.message_id not in known][:LETTERS_SHOWN_MAX],
            figures=activity.figures(found.events, subscription=subscription.arn),
            complete=found.complete,
            since_ms=0 if found.complete or not found.events else found.events[-1].at_ms,
            every_machine=not self._parts.reader.source.shared,
            events_written=self._parts.reader.source.written,
            certificate=await self._certificate(),
            **self._secret(subscription, reveal=reveal),
        )

    async def _target(self, subscription: Subscription) -> Target:
        return target_of(subscription, await self._parts.backend.topics.get(subscription.topic_arn))

    async def _letters(self, target: Target) -> ListedLetters:
        """The subscription's messages in its dead-letter queue: events about them may be on other machines, or gone."""
        if not target.dead_letter_arn:
            return ListedLetters(0, [], all_read=True)
        async with self._parts.reader.room(target.arn):
            return await self._parts.past.dead_letters(target.arn, target.dead_letter_arn)

    async def _events(self, subscription: Subscription, needle: bytes) -> NewestEvents:
        """The newest events about the subscription, of lines with the needle."""
        wanted = about(subscription.topic_arn, subscription.arn)
        reader = self._parts.reader
        async with reader.room(subscription.arn):
            return await asyncio.to_thread(newest_events, reader.source.directories, needle, ALL, wanted, EVENTS_READ)

    async def _breaker(self, target: Target) -> OpenBreaker | None:
        """The endpoint's open circuit breaker, of the worker where it is open longest."""
        reports = (await self._parts.backend.control.state()).reports
        of_endpoint = (target.account, shown_endpoint(target.endpoint))
        open_ones = [one for report in reports for one in report.breakers if (one.account, one.endpoint) == of_endpoint]
        return min(open_ones, key=lambda one: one.since_ms, default=None)

    async def _certificate(self) -> str:
        identity = await self._parts.backend.signing_keys.identity(self._clock.real_ms())
        return f"{self._parts.base_url}/{certificate_name(identity.certificate_pem)}"

    def _secret(self, subscription: Subscription, *, reveal: bool) -> dict[str, Any]:
        state = secret_state(subscription)
        former_until_ms = state.made_ms + OVERLAP_MS
        return {
            "may_have_secret": find_protocol(subscription.protocol).web,
            "secret_number": state.number,
            "secret": self._parts.secrets.text(subscription.arn, state.number) if reveal and state.number else "",
            "former_until_ms": former_until_ms if len(state.valid_numbers(self._clock.now_ms())) > 1 else 0,
        }
