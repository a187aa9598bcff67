"""The base of protocols whose endpoints are resources of AWS, which the outbox or the gateway stands for."""

from __future__ import annotations

import re

from cns.protocols.contract import EndpointProtocol, Transport
from cns_common.arn import ACCOUNT_ID, parse_arn


class Resource(EndpointProtocol):
    transport = Transport.OUTBOX
    names_account = True
    service: str
    """The service in the ARN."""
    form: re.Pattern[str]
    """The last part of the ARN."""

    def check(self, endpoint: str) -> str:
        arn = parse_arn(endpoint)
        if (
            arn is None
            or (arn.partition, arn.service) != ("aws", self.service)
            or not arn.region
            or ACCOUNT_ID.fullmatch(arn.account) is None
            or self.form.fullmatch(arn.resource) is None
        ):
            raise self.syntax_fault(endpoint)
        return endpoint

    def endpoint_name(self, endpoint: str) -> str:
        return endpoint
