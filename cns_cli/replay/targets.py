"""The option --to: what a replay is sent to, from its text."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from cns.arns import check_subscription_arn, parse_queue_arn, topic_fault
from cns.delivery.endpoint_names import endpoint_name
from cns.subscriptions.endpoint_syntax import check_endpoint
from cns_common.arn import parse_arn
from cns_common.errors import EXIT_USAGE, RequestError, StartError

URL_PROTOCOLS = {"http": "http", "https": "https", "redis": "redis", "rediss": "redis"}
"""The protocol of each scheme."""


class TargetKind(Enum):
    SUBSCRIPTION = "subscription"
    TOPIC = "topic"
    ENDPOINT = "endpoint"


class ReplayTarget(NamedTuple):
    """`text` is an ARN or a URL; `protocol` that of an endpoint, '' for the others."""

    kind: TargetKind
    text: str
    protocol: str = ""

    @property
    def shown(self) -> str:
        """The text, or the host of a URL, whose other parts may be secrets."""
        if self.kind is not TargetKind.ENDPOINT:
            return self.text
        return endpoint_name("redis" if self.protocol == "rediss" else self.protocol, self.text)


def parse_target(text: str) -> ReplayTarget:
    """Raises StartError for a text that is none of the four kinds."""
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    try:
        if scheme in URL_PROTOCOLS:
            protocol = URL_PROTOCOLS[scheme]
            return ReplayTarget(TargetKind.ENDPOINT, check_endpoint(protocol, text), protocol)
        if parse_queue_arn(text) is not None:
            return ReplayTarget(TargetKind.ENDPOINT, text, "sqs")
        arn = parse_arn(text)
        if arn is not None and arn.service == "sns":
            if ":" not in arn.resource:
                return ReplayTarget(TargetKind.TOPIC, check_topic(text, "--to"))
            check_subscription_arn(text, "")
            return ReplayTarget(TargetKind.SUBSCRIPTION, text)
    except RequestError as error:
        raise StartError(f"--to {text}: {error.message}", EXIT_USAGE) from None
    wanted = "the ARN of a subscription, a topic or a queue, or a URL: http, https, redis"
    raise StartError(f"--to {text} is not {wanted}", EXIT_USAGE)


def check_topic(text: str, option: str) -> str:
    """Return the ARN of a topic. Raises StartError."""
    fault = topic_fault(text, option, "")
    if fault is not None:
        raise StartError(f"{option} {text} is not the ARN of a topic", EXIT_USAGE)
    return text
