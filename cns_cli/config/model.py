"""The configuration file as models: what it may contain, and its JSON schema (`cns config schema`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

from cns_cli.config.source import Decimal
from cns_common.aws.call import USER_NAME


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
    max_receive_count: int = Field(ge=1, le=1000, strict=True)


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

    def names_resources(self) -> bool:
        return bool(self.model_fields_set & Contents.model_fields.keys())


def _resolved(given: object) -> str:
    """The text behind `{env: NAME}` or `{file: PATH}`."""
    match given:
        case {"env": str(name), **others} if not others:
            if name not in os.environ:  # noqa: TID251  # named by the file, no setting
                raise ValueError(f"the variable {name} is not set")
            return os.environ[name]  # noqa: TID251  # as above
        case {"file": str(name), **others} if not others:
            try:
                return Path(name).read_text().strip()
            except (OSError, ValueError) as error:
                raise ValueError(f"{name} cannot be read: {error}") from None
    raise ValueError("is {env: NAME} or {file: PATH}: the file holds no keys")


_REFERENCE: Any = WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1})
KeyId = Annotated[str, BeforeValidator(_resolved), Field(pattern=r"^[A-Z0-9]{16,128}$"), _REFERENCE]
Secret = Annotated[str, BeforeValidator(_resolved), Field(pattern=r"^[!-~]{16,128}$"), _REFERENCE]
Number = Annotated[str, Field(pattern="^[0-9]{12}$")]
UserName = Annotated[str, Field(pattern=f"^{USER_NAME.pattern}$")]


class Key(Part):
    id: KeyId
    secret: Secret = Field(repr=False)


class User(Part):
    keys: list[Key] = Field([], max_length=2)
    """Others stay as they are."""


class Account(Contents):
    name: str | None = None
    """The owner's."""
    key: Key | None = None
    """The only one of the account's root."""
    users: dict[UserName, User] = {}


class File(Contents):
    """Queues, topics and subscriptions of the caller's account, and other accounts with theirs."""

    accounts: dict[Number, Account] = {}
