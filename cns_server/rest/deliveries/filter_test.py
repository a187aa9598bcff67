"""Tries a filter policy on a message, without a topic: whether it matches, and the condition that failed."""

from __future__ import annotations

import base64
import binascii
import json

from fastapi import APIRouter

from cns.errors import invalid_parameter
from cns.filters.evaluation import matches
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Filter, Scope
from cns.filters.parser import read_filter
from cns.filters.reasons import first_unmet, reason
from cns.publishing.message_attributes import MessageAttributeValue, parse_attributes
from cns.rest.deliveries import FilterVerdict
from cns_server.rest.calls import RestCalls
from cns_server.rest.deliveries.models import FilterTest
from cns_server.rest.dependencies import Begun
from cns_server.rest.models import NewMessageAttribute
from cns_server.rest.queues import AccountId

_NOT_AN_OBJECT = "the policy looks at the body, which is not a JSON object"
_MALFORMED = "the policy looks at attributes, and a Number or String.Array among them is malformed"


class FilterRoutes:
    def __init__(self, calls: RestCalls) -> None:
        self._calls = calls

    def add_to(self, router: APIRouter) -> None:
        router.add_api_route(
            "/accounts/{account}/filterTests", self.test_filter, methods=["POST"], response_model=FilterVerdict
        )

    async def test_filter(self, rest: Begun, account: AccountId, body: FilterTest) -> FilterVerdict:
        """Whether a filter policy matches a message, and if not, which of its keys is not met, and by what."""
        self._calls.check(rest, "sns:GetSubscriptionAttributes", account=account)
        self._calls.check_own(rest, account)
        return verdict(body)


def verdict(test: FilterTest) -> FilterVerdict:
    """Raises RequestError for a policy or attributes that SNS refuses."""
    scope = Scope(test.scope)
    text = test.policy if isinstance(test.policy, str) else json.dumps(test.policy)
    _, policy = read_filter(text, scope)
    attributes = parse_attributes({name: _member(name, one) for name, one in test.attributes.items()})
    values = attribute_values(attributes) if scope is Scope.ATTRIBUTES else body_values(test.message)
    if values is None:
        return FilterVerdict(matches=False, reason=_MALFORMED if scope is Scope.ATTRIBUTES else _NOT_AN_OBJECT)
    return _judge(policy, values)


def _judge(policy: Filter, values: MessageValues) -> FilterVerdict:
    if matches(policy, values):
        return FilterVerdict(matches=True)
    return FilterVerdict(matches=False, failed_key=first_unmet(policy, values) or None, reason=reason(policy, values))


def _member(name: str, attribute: NewMessageAttribute) -> MessageAttributeValue:
    member = MessageAttributeValue(DataType=attribute.data_type)
    if attribute.string_value is not None:
        member["StringValue"] = attribute.string_value
    if attribute.binary_value is not None:
        try:
            member["BinaryValue"] = base64.b64decode(attribute.binary_value, validate=True)
        except (binascii.Error, ValueError):
            raise invalid_parameter(f"{name}: the binary value is not base64") from None
    return member
