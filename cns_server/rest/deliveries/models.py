"""The bodies about deliveries and filters. Times are milliseconds since the epoch, durations are milliseconds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cns_server.rest.models import NewMessageAttribute, QueueText, Wire


class FilterTest(Wire):
    policy: str | dict[str, Any] = Field(description="The filter policy, as JSON or as the text that SNS takes.")
    scope: Literal["MessageAttributes", "MessageBody"] = "MessageAttributes"
    message: QueueText = ""
    attributes: dict[str, NewMessageAttribute] = Field(default={})
