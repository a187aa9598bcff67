"""The bodies of the REST API's requests, and of responses that no client of `cns.client` reads. Names are camelCase on
the wire; times are milliseconds since the epoch, durations are seconds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

LIST_MAX = 1_000
TEXT_CHARS_MAX = 1_048_576
QUEUE_NAME = r"^[A-Za-z0-9_-]{1,80}(\.fifo)?$"
LEVELS_MAX = 40
"""More would make tokens that are longer than those that are read."""
LevelName = Annotated[str, Field(max_length=40)]
QueueText = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]


def _text(value: object) -> object:
    """A number or a boolean as the AWS protocols write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


AttributeText = Annotated[str, BeforeValidator(_text, json_schema_input_type=str | bool | int | float)]
"""The value of an attribute: a number or a boolean stands for its text."""


class Wire(BaseModel):
    """A body. Unknown members are refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class NewQueue(Wire):
    name: str
    attributes: dict[str, AttributeText] = Field({}, description="As of SQS CreateQueue, such as VisibilityTimeout.")
    tags: dict[str, str] = {}


class QueueChange(Wire):
    attributes: dict[str, AttributeText]


class NewMessageAttribute(Wire):
    """An attribute to send: a number or a boolean stands for its text."""

    data_type: str
    string_value: AttributeText | None = None
    binary_value: str | None = Field(default=None, description="base64")


class NewMessage(Wire):
    body: QueueText
    delay_seconds: int | None = Field(default=None, description="Initial invisibility: 0 to 900.")
    attributes: dict[str, NewMessageAttribute] = {}
    group_id: str | None = None
    deduplication_id: str | None = None


class MessageUpdate(Wire):
    body: QueueText | None = Field(default=None, description="New contents, which replace the text and all attributes.")
    lease_seconds: int | None = Field(default=None, description="The new lease, from now: 0 to 43,200.")


class NewRedrive(Wire):
    destination_arn: str | None = Field(default=None, description="Default: the queues that the messages came from.")
    messages_per_second: int | None = None


class NewTopic(Wire):
    name: str
    attributes: dict[str, AttributeText] = {}
    tags: dict[str, str] = {}


class NewNotification(Wire):
    message: QueueText
    subject: str | None = None
    structure: Literal["json"] | None = None
    attributes: dict[str, NewMessageAttribute] = {}
    group_id: str | None = None
    deduplication_id: str | None = None


class NewSubscription(Wire):
    protocol: str
    endpoint: str
    attributes: dict[str, AttributeText] = {}


class SubscriptionChange(Wire):
    attributes: dict[str, AttributeText]


class Confirmation(Wire):
    token: str


class PermissionRequest(Wire):
    """The levels, queue and life of a token or signed URL that is to be made."""

    levels: list[LevelName] = Field(
        [],
        max_length=LEVELS_MAX,
        description="Empty: all levels. See /permissions/supportedAuthorizationLevels.",
    )
    queue: Annotated[str, Field(pattern=QUEUE_NAME, max_length=80)] | None = Field(
        default=None, description="The only queue that it allows."
    )
    life_seconds: Annotated[int, Field(ge=1, le=366 * 86_400)] = 3_600


class AuthorizationLevel(Wire):
    name: str
    actions: list[str]


class AuthorizationLevels(Wire):
    levels: list[AuthorizationLevel]


class Account(Wire):
    account: str
    created_at: int
    key_ids: list[str]
    name: str = Field("", description="Of the owner; empty if none was given.")
    has_password: bool = Field(False, description="Whether the owner may sign in to the pages with a password.")


class AccountChange(Wire):
    """Changes to an account's owner. A member that is left out changes nothing."""

    name: str | None = Field(None, description="Of the owner: 1 to 64 characters, not digits alone; empty: none.")
    password: str | None = Field(
        None, description="For the pages, 12 to 256 characters; empty: none. Its sessions end. It is never shown."
    )


class AccountList(Wire):
    accounts: list[Account]


class AccessKey(Wire):
    """An access key. Its secret is shown this once."""

    account: str
    key_id: str
    secret: str
    user: str = ""


class UserKey(Wire):
    key_id: str
    created_at: int
    active: bool


class User(Wire):
    name: str
    user_id: str
    created_at: int
    active: bool
    keys: list[UserKey]


class UserList(Wire):
    users: list[User]


class NewUser(Wire):
    name: str


class Activity(Wire):
    active: bool


class ProblemDetails(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    code: str
    detail: str
