"""The pages behind the links in mails. Opening a page changes nothing, because scanners open links; its button acts."""

from __future__ import annotations

from collections.abc import Awaitable

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from cns.mail import texts as mail
from cns.mail.links import MailLinks
from cns.mail.message import ONE_CLICK
from cns.mail.page_template import MailPage
from cns.subscriptions.subscription import ConfirmationToken, Subscription, SubscriptionState
from cns_common.errors import OutcomeUnknown, RequestError, StoreUnavailable

FORM_BYTES_MAX = 4_096
_ONE_CLICK = tuple(word.encode() for word in ONE_CLICK.split("="))
"""The name and the value of a one-click form: in each form encoding its body has both words."""

log = structlog.get_logger(__name__)


def mail_pages(links: MailLinks, public_url: str) -> list[Route]:
    """With an empty `public_url`, links in mails lead to the host that was asked for the page."""
    pages = _MailPages(links)

    async def show_confirmation(request: Request) -> Response:
        return await pages.or_error_page(pages.show_confirmation(_word(request, "Token"), f"?{request.url.query}"))

    async def confirm(request: Request) -> Response:
        return await pages.or_error_page(pages.confirm(_word(request, "TopicArn"), _word(request, "Token")))

    async def show_unsubscribe(request: Request) -> Response:
        arn, address = _word(request, "SubscriptionArn"), _word(request, "Endpoint")
        return await pages.or_error_page(pages.show_unsubscribe(arn, address, f"?{request.url.query}"))

    async def unsubscribe(request: Request) -> Response:
        arn, address = _word(request, "SubscriptionArn"), _word(request, "Endpoint")
        base_url = public_url.rstrip("/") or f"{request.url.scheme}://{request.headers.get('host', '')}"
        one_click = await _is_one_click(request)
        return await pages.or_error_page(pages.unsubscribe(arn, address, base_url, one_click=one_click))

    return [
        Route(f"/{mail.CONFIRMATION_PAGE}", show_confirmation),
        Route(f"/{mail.CONFIRMATION_PAGE}", confirm, methods=["POST"]),
        Route(f"/{mail.UNSUBSCRIBE_PAGE}", show_unsubscribe),
        Route(f"/{mail.UNSUBSCRIBE_PAGE}", unsubscribe, methods=["POST"]),
    ]


def _word(request: Request, name: str) -> str:
    return request.query_params.get(name, "")


class _MailPages:
    def __init__(self, links: MailLinks) -> None:
        self._links = links
        self._page = MailPage()

    async def show_confirmation(self, token: str, own_query: str) -> Response:
        subscription = await self._links.find_by_token(token)
        if subscription.state is SubscriptionState.CONFIRMED:
            return self._confirmed_page(subscription)
        title, text, button = _QUESTIONS[subscription.state]
        return self._page.show(title, text, facts=_facts(subscription), button=(button, own_query))

    async def confirm(self, topic_arn: str, token: str) -> Response:
        return self._confirmed_page(await self._links.confirm(topic_arn, token))

    async def show_unsubscribe(self, arn: str, address: str, own_query: str) -> Response:
        subscription = await self._links.find_removable(arn, address)
        if subscription is None or subscription.state is SubscriptionState.REMOVED:
            return self._unsubscribed_page(subscription, None)
        text = "You will get no more mails from this topic."
        return self._page.show("Unsubscribe?", text, facts=_facts(subscription), button=("Unsubscribe", own_query))

    async def unsubscribe(self, arn: str, address: str, base_url: str, *, one_click: bool) -> Response:
        subscription = await self._links.find_removable(arn, address)
        token = None if subscription is None else await self._links.unsubscribe(subscription, base_url)
        return PlainTextResponse("Unsubscribed.\n") if one_click else self._unsubscribed_page(subscription, token)

    async def or_error_page(self, page: Awaitable[Response]) -> Response:
        """Return the page, or in place of its error a page that explains it."""
        try:
            return await page
        except RequestError as error:
            title, text, status = _ERROR_PAGES.get(error.code, _UNAVAILABLE)
            return self._page.show(title, text, status=status)
        except (StoreUnavailable, OutcomeUnknown) as error:
            log.warning("mail_page.failed", error=str(error))
            title, text, status = _UNAVAILABLE
            return self._page.show(title, text, status=status)

    def _confirmed_page(self, subscription: Subscription) -> Response:
        unsubscribe = mail.unsubscribe_page(".", subscription.arn, subscription.endpoint)
        return self._page.show(
            "Subscription confirmed!",
            "You have successfully subscribed.",
            facts={**_facts(subscription), "Your subscription's id is": subscription.arn},
            link=None
            if subscription.authenticated
            else ("If it was not your intention to subscribe,", "click here to unsubscribe.", unsubscribe),
        )

    def _unsubscribed_page(self, subscription: Subscription | None, token: ConfirmationToken | None) -> Response:
        title, text = "You are unsubscribed", "You get no more mails from this topic."
        if subscription is None:
            return self._page.show(title, text)
        if token is None:
            text += " The mail that told you so has a link to subscribe again."
            return self._page.show(title, text, facts=_facts(subscription))
        undo = mail.confirmation_page(".", subscription.topic_arn, token.text, subscription.endpoint)
        return self._page.show(title, text, facts=_facts(subscription), button=("Undo", undo))


_QUESTIONS = {
    SubscriptionState.PENDING: (
        "Confirm your subscription",
        "You were asked to get mails from this topic. If that was an error, close this page: nothing will come.",
        "Confirm subscription",
    ),
    SubscriptionState.REMOVED: ("Subscribe again?", "You have unsubscribed from this topic.", "Subscribe again"),
}
_UNAVAILABLE = ("Not now", "The service cannot do this at the moment. Please try again soon.", 503)
_INVALID_LINK = (
    "This link does not work",
    "It has expired, or it is not whole. Links that ask for a confirmation are good for 48 hours: subscribe again to "
    "get a new one.",
    404,
)
_ERROR_PAGES = {
    "InvalidParameter": _INVALID_LINK,
    "NotFound": _INVALID_LINK,
    "InvalidState": ("Nothing to unsubscribe", "This subscription is not confirmed: it sends no mails.", 400),
    "AuthorizationError": (
        "This link cannot unsubscribe",
        "The subscription is protected: only its owner can remove it. Please ask whoever sends these mails.",
        403,
    ),
}


def _facts(subscription: Subscription) -> dict[str, str]:
    return {"Topic": subscription.topic_arn, "Mailbox": subscription.endpoint}


async def _is_one_click(request: Request) -> bool:
    """RFC 8058: whether a mailbox's own button posted the form; it shows no page. At most FORM_BYTES_MAX are read."""
    form = bytearray()
    async for part in request.stream():
        form += part[: FORM_BYTES_MAX - len(form)]
        if len(form) == FORM_BYTES_MAX:
            break
    return all(word in form for word in _ONE_CLICK)
