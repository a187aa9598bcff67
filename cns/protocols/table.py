"""The one table of endpoint protocols. Who asks what a protocol can looks here."""

from __future__ import annotations

from collections.abc import Mapping

from cns.protocols.application import Application
from cns.protocols.contract import EndpointProtocol
from cns.protocols.email import Email, EmailJson
from cns.protocols.firehose import Firehose
from cns.protocols.http import Http
from cns.protocols.lambda_function import LambdaFunction
from cns.protocols.redis import Redis
from cns.protocols.sms import Sms
from cns.protocols.sqs import Sqs

PROTOCOLS: Mapping[str, EndpointProtocol] = {
    protocol.name: protocol
    for protocol in (
        Sqs("sqs"),
        Http("http"),
        Http("https"),
        Email("email"),
        EmailJson("email-json"),
        Sms("sms"),
        Application("application"),
        LambdaFunction("lambda"),
        Firehose("firehose"),
        Redis("redis"),
    )
}
ALIASES: Mapping[str, str] = {alias: protocol.name for protocol in PROTOCOLS.values() for alias in protocol.aliases}
SCHEMES: Mapping[str, EndpointProtocol] = {
    scheme: protocol for protocol in PROTOCOLS.values() for scheme in (protocol.name, *protocol.other_schemes)
}
"""Protocols by the schemes of their URLs."""


def find_protocol(name: str) -> EndpointProtocol:
    """The protocol of a stored subscription. One that is not in the table, left by another version, can do nothing."""
    return PROTOCOLS.get(name) or EndpointProtocol(name)
