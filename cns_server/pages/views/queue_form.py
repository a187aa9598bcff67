"""The form that creates a queue: its fields as attributes of CreateQueue."""

from __future__ import annotations

import json
from collections.abc import Callable

from cns_server.pages.context import Form
from cns_server.rest.problems import Problem

_FIELDS = {
    "visibility": "VisibilityTimeout",
    "delay": "DelaySeconds",
    "retention": "MessageRetentionPeriod",
    "engine": "Engine",
}
MAX_RECEIVES = "5"


def new_queue_attributes(form: Form, arn_of: Callable[[str], str]) -> dict[str, str]:
    """`arn_of` makes the ARN of a queue of the person's account."""
    attributes = {"FifoQueue": "true"} if form.text("name").strip().endswith(".fifo") else {}
    for field, attribute in _FIELDS.items():
        if value := form.optional(field):
            attributes[attribute] = value
    if dead_letters := form.optional("dead_letters"):
        target = dead_letters if dead_letters.startswith("arn:") else arn_of(dead_letters)
        receives = form.optional("receives") or MAX_RECEIVES
        attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": receives})
    return attributes | _more(form.text("more"))


def _more(text: str) -> dict[str, str]:
    """Lines of `NAME=VALUE`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if "=" not in line:
            raise Problem(400, "InvalidRequest", f"An attribute is a line NAME=VALUE, not {line:.100}.")
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
