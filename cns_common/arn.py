"""Amazon resource names: parsing and making, without any service's rules."""

from __future__ import annotations

import re
from typing import NamedTuple

ACCOUNT_ID = re.compile(r"[0-9]{12}")


class Arn(NamedTuple):
    """`arn:partition:service:region:account:resource` (the resource may itself hold colons)."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    def __str__(self) -> str:
        return f"arn:{self.partition}:{self.service}:{self.region}:{self.account}:{self.resource}"


def parse_arn(text: str) -> Arn | None:
    """The parts of `text`, or None when it is not an ARN of six parts."""
    parts = text.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn":
        return None
    return Arn(*parts[1:])


def queue_arn(region: str, account: str, name: str) -> str:
    return f"arn:aws:sqs:{region}:{account}:{name}"


def topic_arn(region: str, account: str, name: str) -> str:
    return f"arn:aws:sns:{region}:{account}:{name}"
