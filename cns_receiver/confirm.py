"""Confirms subscriptions by a GET of their SubscribeURL."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

import httpx
import msgspec

from cns_common.errors import UNREADABLE
from cns_receiver.endpoint import Endpoint, ReceivedConfirmation
from cns_receiver.fetch import Fetcher, FetchFailed, FetchRefused

REQUESTS_MAX = 1_000
"""Running and waiting requests of all endpoints."""
REQUESTS_AT_ONCE = 16
MEMBER_CHARS_MAX = 8 * 1024

_SUBSCRIPTION = re.compile(rb"<SubscriptionArn>([^<]{1,512})</SubscriptionArn>")


class _ConfirmationMembers(msgspec.Struct, rename={"topic_arn": "TopicArn", "subscribe_url": "SubscribeURL"}):
    topic_arn: str = ""
    subscribe_url: str = ""


class Confirmer:
    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._limit = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._requests: set[asyncio.Task[None]] = set()

    def add(self, endpoint: Endpoint, body: bytes, *, confirm: bool) -> None:
        """Record a SubscriptionConfirmation, and confirm it if `confirm` is set."""
        try:
            members = msgspec.json.decode(body, type=_ConfirmationMembers)
        except UNREADABLE as error:
            members = _ConfirmationMembers()
            reason = f"the body cannot be read: {error}"
        else:
            reason = "" if members.subscribe_url else "the body has no SubscribeURL"
        if len(members.topic_arn) + len(members.subscribe_url) > MEMBER_CHARS_MAX:
            members, reason = _ConfirmationMembers(), "the body's TopicArn or SubscribeURL is too long"
        confirmation = ReceivedConfirmation(members.topic_arn, members.subscribe_url)
        endpoint.confirmations.append(confirmation)
        if reason:
            _fail(endpoint, confirmation, "refused", reason)
        elif confirm:
            self.confirm(endpoint, confirmation)

    def confirm_all(self, endpoint: Endpoint) -> None:
        """Confirm, on request, every subscription that is not confirmed yet."""
        for confirmation in list(endpoint.confirmations):
            if confirmation.state in ("waiting", "failed"):
                self.confirm(endpoint, confirmation)

    def confirm(self, endpoint: Endpoint, confirmation: ReceivedConfirmation) -> None:
        try:
            url = self._fetcher.check(confirmation.subscribe_url)
            if url.params.get("Action") != "ConfirmSubscription":
                raise FetchRefused("the URL does not ask for ConfirmSubscription")
        except FetchRefused as error:
            _fail(endpoint, confirmation, "refused", str(error))
            return
        if len(self._requests) >= REQUESTS_MAX:
            _fail(endpoint, confirmation, "failed", "too many confirmations at once")
            return
        confirmation.state = "visiting"
        request = asyncio.get_running_loop().create_task(self._request(endpoint, confirmation, url))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    async def close(self) -> None:
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    async def _request(self, endpoint: Endpoint, confirmation: ReceivedConfirmation, url: httpx.URL) -> None:
        async with self._limit:
            try:
                answer = await self._fetcher.get(url)
            except FetchFailed as error:
                _fail(endpoint, confirmation, "failed", str(error))
                return
        found = _SUBSCRIPTION.search(answer)
        confirmation.state, confirmation.reason = "confirmed", ""
        confirmation.subscription_arn = found[1].decode("latin-1") if found else ""
        endpoint.confirmed += 1
        endpoint.changed()


def _fail(
    endpoint: Endpoint, confirmation: ReceivedConfirmation, state: Literal["failed", "refused"], reason: str
) -> None:
    confirmation.state, confirmation.reason = state, reason
    endpoint.confirmations_failed += 1
    endpoint.changed()
