"""LocalStack's `/_aws/sns/…`: messages to phones, tokens of subscriptions, opt-outs, the signing certificate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cns.delivery.outbox import OutboxItem
from cns.stores.contract import OutboxStore
from cns.stores.mobile_contract import SmsStore
from cns.subscriptions.subscription import ConfirmationToken
from cns_common.arn import parse_arn
from cns_common.errors import UNREADABLE
from cns_server.app import CERTIFICATE_PREFIX
from cns_server.localstack.body import read_body
from cns_server.refusals import NO_CERTIFICATE

ACCOUNT = "000000000000"
REGION = "us-east-1"
"""The account and region of requests that name none."""
ITEMS_MAX = 10_000
"""A page shows at most this many, the newest."""
ITEMS_AT_ONCE = 500
OPT_OUT_BYTES_MAX = 4_096

NewToken = Callable[[str], Awaitable[ConfirmationToken | None]]
"""Makes a token for a subscription's ARN; None if there is no such subscription."""


class OptOutRequest(msgspec.Struct):
    phoneNumber: str  # noqa: N815  # LocalStack's name
    accountId: str = ACCOUNT  # noqa: N815  # as above


class NotificationPages:
    def __init__(
        self, outbox: OutboxStore, sms: SmsStore, new_token: NewToken, certificate: Callable[[str], bytes | None]
    ) -> None:
        self._outbox = outbox
        self._sms = sms
        self._new_token = new_token
        self._certificate = certificate

    def routes(self) -> list[Route]:
        phones, texts = "/_aws/sns/platform-endpoint-messages", "/_aws/sns/sms-messages"
        return [
            Route(phones, self._show_push_messages),
            Route(phones, self._delete_push_messages, methods=["DELETE"]),
            Route(texts, self._show_sms),
            Route(texts, self._delete_sms, methods=["DELETE"]),
            Route("/_aws/sns/subscription-tokens/{arn:path}", self._issue_token),
            Route("/_aws/sns/phone-opt-outs", self._opt_out, methods=["POST"]),
            Route(f"/_aws/sns/{CERTIFICATE_PREFIX}{{name}}", self._show_certificate),
        ]

    # -- messages -----------------------------------------------------------------------------------------------------

    async def _show_push_messages(self, request: Request) -> Response:
        """Push messages by endpoint, oldest first."""
        wanted, account, region = _endpoint_filter(request)
        items = await self._items("application", account, region, wanted)
        shown = _by_destination(items, wanted, lambda item: {"TargetArn": item.destination, **_describe(item)})
        return JSONResponse({"platform_endpoint_messages": shown, "region": region})

    async def _delete_push_messages(self, request: Request) -> Response:
        wanted, account, region = _endpoint_filter(request)
        return await self._delete("application", account, region, wanted)

    async def _show_sms(self, request: Request) -> Response:
        """SMS by phone number, oldest first."""
        wanted, account, region = _number_filter(request)
        items = await self._items("sms", account, region, wanted)
        shown = _by_destination(
            items,
            wanted,
            lambda item: {
                "PhoneNumber": item.destination,
                "SubscriptionArn": item.subscription_arn or None,
                **_describe(item),
            },
        )
        return JSONResponse({"sms_messages": shown, "region": region})

    async def _delete_sms(self, request: Request) -> Response:
        wanted, account, region = _number_filter(request)
        return await self._delete("sms", account, region, wanted)

    async def _items(self, protocol: str, account: str, region: str, destination: str) -> list[OutboxItem]:
        items: list[OutboxItem] = []
        read, before = 0, ""
        while read < ITEMS_MAX and (page := await self._outbox.newest(account, protocol, before, ITEMS_AT_ONCE)):
            read, before = read + len(page), page[-1].id
            items += [item for item in page if item.region == region and destination in ("", item.destination)]
        return items[::-1]

    async def _delete(self, protocol: str, account: str, region: str, destination: str) -> Response:
        items = await self._items(protocol, account, region, destination)
        await self._outbox.remove([item.id for item in items])
        return Response(status_code=204)

    # -- the rest -----------------------------------------------------------------------------------------------------

    async def _issue_token(self, request: Request) -> Response:
        """Issue a new token: it is equivalent to earlier ones, which are not stored by subscription."""
        arn = request.path_params["arn"]
        if parse_arn(arn) is None:
            return _refusal(400, "The provided SubscriptionARN is invalid", arn)
        token = await self._new_token(arn)
        if token is None:
            return _refusal(404, "The provided SubscriptionARN is not found", arn)
        return JSONResponse({"subscription_token": token.text, "subscription_arn": arn})

    async def _opt_out(self, request: Request) -> Response:
        try:
            opted_out = msgspec.json.decode(await read_body(request, OPT_OUT_BYTES_MAX) or b"", type=OptOutRequest)
        except UNREADABLE:
            return JSONResponse({"error": "phoneNumber is missing"}, 400)
        await self._sms.opt_out(opted_out.accountId, opted_out.phoneNumber)
        return JSONResponse({})

    async def _show_certificate(self, request: Request) -> Response:
        pem = self._certificate(CERTIFICATE_PREFIX + request.path_params["name"])
        if pem is None:
            raise HTTPException(404, NO_CERTIFICATE)
        return Response(pem, media_type="application/x-pem-file")


def _endpoint_filter(request: Request) -> tuple[str, str, str]:
    """Endpoint ('' for all), account and region. An endpoint's ARN names the latter two."""
    arn = request.query_params.get("endpointArn", "")
    parsed = parse_arn(arn)
    if parsed is not None:
        return arn, parsed.account, parsed.region
    return arn, *_account_and_region(request)


def _number_filter(request: Request) -> tuple[str, str, str]:
    return request.query_params.get("phoneNumber", ""), *_account_and_region(request)


def _account_and_region(request: Request) -> tuple[str, str]:
    return request.query_params.get("accountId", ACCOUNT), request.query_params.get("region", REGION)


def _by_destination(
    items: Sequence[OutboxItem], wanted: str, shown: Callable[[OutboxItem], Mapping[str, Any]]
) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {wanted: []} if wanted else {}
    for item in items:
        found.setdefault(item.destination, []).append(shown(item))
    return found


def _describe(item: OutboxItem) -> dict[str, Any]:
    return {
        "TopicArn": item.topic_arn or None,
        "MessageId": item.message_id,
        "Message": item.message,
        "MessageAttributes": {
            name: {"Type": data_type, "Value": text} for name, (data_type, text) in item.attributes.items()
        },
        "MessageStructure": "json" if item.structured else None,
        "Subject": item.subject,
    }


def _refusal(status: int, error: str, arn: str) -> Response:
    return JSONResponse({"error": error, "subscription_arn": arn}, status)
