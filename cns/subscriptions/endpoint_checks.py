"""What is asked about an endpoint before it may be subscribed, by protocol."""

from __future__ import annotations

from collections.abc import Mapping

from cns.errors import invalid_parameter
from cns.push.endpoints import MobileEndpoints
from cns.subscriptions.subscribe import CheckEndpoint, MayBeSubscribed
from cns_common.errors import RequestError


def endpoint_checks(refusal: CheckEndpoint, phones: MobileEndpoints) -> Mapping[str, MayBeSubscribed]:
    return {**_addressed(refusal), "application": _installed(phones)}


def _addressed(refusal: CheckEndpoint) -> Mapping[str, MayBeSubscribed]:
    """For endpoints at an address: it must be one that may be delivered to."""

    async def check(endpoint: str) -> None:
        reason = await refusal(endpoint)
        if reason is not None:
            raise RequestError("AuthorizationError", reason)

    return {"http": check, "https": check, "redis": check}


def _installed(phones: MobileEndpoints) -> MayBeSubscribed:
    async def check(endpoint: str) -> None:
        if await phones.look_up(endpoint) is None:
            # AWS's text has "arn" twice: its own word, and the beginning of the ARN.
            raise invalid_parameter(f"Endpoint Reason: Endpoint does not exist for endpoint arn{endpoint}")

    return check
