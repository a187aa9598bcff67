"""Firehose subscriptions: a stream is written to by its owner alone, in a role that is the owner's too."""

from __future__ import annotations

from cns.errors import invalid_parameter
from cns.subscriptions.attributes import ROLE
from cns.subscriptions.endpoint_syntax import account_of
from cns.subscriptions.subscription import Subscription
from cns_common.arn import parse_arn
from cns_common.aws.call import Call
from cns_common.errors import RequestError


def check_stream(call: Call, subscription: Subscription) -> None:
    """In AWS's order: whose the role is, whose the stream is, whether there is a role at all."""
    if subscription.protocol != "firehose":
        return
    role = subscription.attributes.get(ROLE, "")
    if call.policies_enforced:
        _check_owner(subscription, role)
    if not role:
        raise invalid_parameter("Delivery protocol firehose can only be subscribed with subscription role arn")


def _check_owner(subscription: Subscription, role: str) -> None:
    arn = parse_arn(role)
    if arn is not None and arn.account != subscription.owner:
        raise RequestError("AuthorizationError", "Cross-account pass role is not allowed.")
    if account_of(subscription.protocol, subscription.endpoint) != subscription.owner:
        raise RequestError(
            "AuthorizationError",
            f"The account {subscription.owner} is not the owner of the endpoint {subscription.endpoint}",
        )
