"""The configuration file as models: what it may contain, and its JSON schema (`cns config schema`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

from cns_cli.config.source import Decimal


def _plain(value: object) -> object:
    """Numbers and truth values as they are written; other values stay."""
    if isinstance(value, Decimal):
        return value.text
    return json.dumps(value) if isinstance(value, int | float) else value


def _text(value: object) -> object:
    """The text of an attribute. JSON values become their compact text, null becomes the empty text, which removes."""
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else _plain(value)


_ANY: Any = WithJsonSchema({"type": ["string", "number", "boolean", "object", "array", "null"]})
_OBJECT: Any = WithJsonSchema({"type": ["object", "string", "null"]})
Tags = dict[str, Annotated[str, BeforeValidator(_plain)]]
Attributes = dict[str, Annotated[str, BeforeValidator(_text), _ANY]]
Document = Annotated[str, BeforeValidator(_text), _OBJECT]
"""JSON, as an object or as its text; null removes it."""


class Part(BaseModel, extra="forbid", alias_generator=to_camel, use_attribute_docstrings=True):
    """A member that is not given is left as it is."""

    @model_validator(mode="before")
    @classmethod
    def _read_empty(cls, given: object) -> object:
        return {} if given is None else given


class DeadLetterQueue(Part):
    queue: str
    """A queue of the account by its name, or an ARN."""
    max_receive_count: int = Field(ge=1, le=1000)


class Declared(Part):
    """A resource with attributes; some have members of their own."""

    MEMBERS: ClassVar[Mapping[str, str]] = {}
    """The attributes of these members."""

    attributes: Attributes = {}

    def own_members(self) -> dict[str, tuple[str, Any]]:
        """By attribute: the member's name in the file and its value, of those that the file gives."""
        return {
            attribute: (to_camel(member), getattr(self, member))
            for member, attribute in self.MEMBERS.items()
            if member in self.model_fields_set
        }

    def given_tags(self) -> dict[str, str] | None:
        """The tags; None if the file gives none."""
        return getattr(self, "tags", None) if "tags" in self.model_fields_set else None


class Queue(Declared):
    MEMBERS = {"policy": "Policy", "dead_letter_queue": "RedrivePolicy"}

    attributes: Attributes = {}
    """SQS's names, such as VisibilityTimeout. Those that are not given stay as they are."""
    tags: Tags = {}
    """All tags: others are removed."""
    policy: Document = ""
    dead_letter_queue: DeadLetterQueue | None = None


class Topic(Declared):
    MEMBERS = {"policy": "Policy"}

    attributes: Attributes = {}
    """SNS's names, such as DisplayName or DeliveryPolicy. Those that are not given stay as they are."""
    tags: Tags = {}
    """All tags: others are removed."""
    policy: Document = ""


class Subscription(Declared):
    MEMBERS = {
        "filter_policy": "FilterPolicy",
        "filter_policy_scope": "FilterPolicyScope",
        "raw_delivery": "RawMessageDelivery",
        "delivery_policy": "DeliveryPolicy",
        "dead_letter_queue": "RedrivePolicy",
    }

    topic: str
    """A topic of the account by its name, or an ARN."""
    protocol: str
    endpoint: str
    """A queue of the account by its name, an ARN, a URL, an address."""
    filter_policy: Document = ""
    filter_policy_scope: str = ""
    raw_delivery: bool = False
    delivery_policy: Document = ""
    dead_letter_queue: str | None = None
    """A queue of the account by its name, or an ARN."""
    attributes: Attributes = {}
    """Other attributes of SNS, such as SubscriptionRoleArn."""
    allow: bool = False
    """Let the topic send to the queue: adds the statement to the queue's policy."""


class Contents(Part):
    queues: dict[str, Queue] = {}
    topics: dict[str, Topic] = {}
    subscriptions: list[Subscription] = []


class File(Contents):
    """Queues, topics and subscriptions of the caller's account."""
