"""Confirms subscriptions for the fault receiver by visiting their SubscribeURL."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

import httpx
import msgspec

from cns_receiver.fetch import Fetcher, FetchFailed, FetchRefused
from cns_receiver.mailbox import Confirmation, Mailbox

VISITS_MAX = 1_000
"""Under way or waiting for their turn, over all endpoints."""
VISITS_AT_ONCE = 16

_SUBSCRIPTION = re.compile(rb"<SubscriptionArn>([^<]{1,512})</SubscriptionArn>")


class _Members(msgspec.Struct, rename={"topic_arn": "TopicArn", "subscribe_url": "SubscribeURL"}):
    topic_arn: str = ""
    subscribe_url: str = ""


class Confirmer:
    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._turn = asyncio.Semaphore(VISITS_AT_ONCE)
        self._visits: set[asyncio.Task[None]] = set()

    def note(self, mailbox: Mailbox, body: bytes, *, visit: bool) -> None:
        """A SubscriptionConfirmation has come: keep what it asks for, and perhaps do it."""
        try:
            members = msgspec.json.decode(body, type=_Members)
        except (ValueError, RecursionError) as error:
            members = _Members()
            reason = f"the body cannot be read: {error}"
        else:
            reason = "" if members.subscribe_url else "the body has no SubscribeURL"
        confirmation = Confirmation(members.topic_arn, members.subscribe_url)
        mailbox.confirmations.append(confirmation)
        if reason:
            _give_up(mailbox, confirmation, "refused", reason)
        elif visit:
            self.visit(mailbox, confirmation)

    def visit_all(self, mailbox: Mailbox) -> None:
        """On a person's word: whatever is not confirmed yet."""
        for confirmation in list(mailbox.confirmations):
            if confirmation.state in ("waiting", "failed"):
                self.visit(mailbox, confirmation)

    def visit(self, mailbox: Mailbox, confirmation: Confirmation) -> None:
        try:
            url = self._fetcher.checked(confirmation.subscribe_url)
            if url.params.get("Action") != "ConfirmSubscription":
                raise FetchRefused("the URL does not ask for ConfirmSubscription")
        except FetchRefused as error:
            _give_up(mailbox, confirmation, "refused", str(error))
            return
        if len(self._visits) >= VISITS_MAX:
            _give_up(mailbox, confirmation, "failed", "too many confirmations at once")
            return
        confirmation.state = "visiting"
        visit = asyncio.get_running_loop().create_task(self._visit(mailbox, confirmation, url))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)

    async def close(self) -> None:
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def _visit(self, mailbox: Mailbox, confirmation: Confirmation, url: httpx.URL) -> None:
        async with self._turn:
            try:
                answer = await self._fetcher.get(url)
            except FetchFailed as error:
                _give_up(mailbox, confirmation, "failed", str(error))
                return
        found = _SUBSCRIPTION.search(answer)
        confirmation.state, confirmation.reason = "confirmed", ""
        confirmation.subscription_arn = found[1].decode("latin-1") if found else ""
        mailbox.confirmed += 1
        mailbox.changed()


def _give_up(mailbox: Mailbox, confirmation: Confirmation, state: Literal["failed", "refused"], reason: str) -> None:
    confirmation.state, confirmation.reason = state, reason
    mailbox.confirmations_failed += 1
    mailbox.changed()
