"""What a service has, in the form of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic.alias_generators import to_camel

from cns.subscriptions.endpoint_syntax import has_masked_password
from cns_cli.config.model import Declared, Queue, Subscription, Topic
from cns_cli.config.resources import Calls, Found, Queues, Subscriptions, Topics
from cns_cli.config.source import plain_value
from cns_cli.config.wanted import POLICY
from cns_cli.queue_policy import statement_for, with_statement
from cns_common.errors import UNREADABLE

Document = dict[str, Any]
_NOT_CONFIRMED = "is not confirmed: its attributes are not in the export"


class Exporter:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._queues, self._topics, self._subscriptions = Queues(calls), Topics(calls), Subscriptions(calls)
        self.notes: list[str] = []
        """What is left out."""

    async def contents(self) -> Document:
        subscriptions = [await self._subscription(name) for name in await self._subscriptions.names()]
        queues = {name: await self._queue(name, subscriptions) for name in await self._queues.names()}
        topics = {name: await self._topic(name) for name in await self._topics.names()}
        return {"queues": queues, "topics": topics, "subscriptions": subscriptions}

    async def _queue(self, name: str, subscriptions: list[Document]) -> Document:
        """A policy that only lets topics of subscriptions send is replaced by their `allow`."""
        found = await self._queues.find(name) or Found({})
        settings = self._queues.settings(name, found.attributes)
        arn, made = self._queues.arn("sqs", name), ""
        allowed = []
        for one in subscriptions:
            statement = statement_for(arn, self._topics.arn("sns", one["topic"]))
            if one["protocol"] == "sqs" and one["endpoint"] == name and _has(settings.get(POLICY, ""), statement):
                made = with_statement(made, statement)
                allowed.append(one)
        if made and not self._queues.differs(name, settings, POLICY, made):
            settings.pop(POLICY)
            for one in allowed:
                one["allow"] = True
        return self._members(settings, Queue) | _tags(found)

    async def _topic(self, name: str) -> Document:
        found = await self._topics.find(name) or Found({})
        return self._members(self._topics.settings(name, found.attributes), Topic) | _tags(found)

    async def _subscription(self, name: str) -> Document:
        topic, protocol, endpoint = name.split(" ", 2)
        found = await self._subscriptions.find(name)
        if found is None or not found.changeable:
            self.notes.append(f"{name} {_NOT_CONFIRMED}")
        if has_masked_password(endpoint):
            self.notes.append(f"{name}: its password is not in the export")
        settings = {} if found is None else self._subscriptions.settings(name, found.attributes)
        known = {"topic": self._short("sns", topic), "protocol": protocol, "endpoint": self._short("sqs", endpoint)}
        return known | self._members(settings, Subscription)

    def _members(self, settings: Mapping[str, str], model: type[Declared]) -> Document:
        own = {attribute: to_camel(member) for member, attribute in model.MEMBERS.items()}
        members = {own[name]: self._value(name, text) for name, text in settings.items() if name in own}
        attributes = {name: self._value(name, text) for name, text in settings.items() if name not in own}
        return members | ({"attributes": attributes} if attributes else {})

    def _value(self, attribute: str, text: str) -> Any:
        if attribute == "RawMessageDelivery":
            return text == "true"
        text = text.replace(f":{self._calls.region}:{self._calls.account}:", ":${region}:${account}:")
        text = text.replace(f"::{self._calls.account}:", "::${account}:")
        if not text.startswith("{"):
            return text
        try:
            value = json.loads(text)
        except UNREADABLE:  # a name for display
            return text
        if attribute != "RedrivePolicy":
            return value
        queue = self._short("sqs", value["deadLetterTargetArn"])
        return {"queue": queue, "maxReceiveCount": value["maxReceiveCount"]} if "maxReceiveCount" in value else queue

    def _short(self, service: str, text: str) -> str:
        """The name behind an ARN of the account."""
        own = f"arn:aws:{service}:{self._calls.region}:{self._calls.account}:"
        return text.removeprefix(own).removeprefix(f"arn:aws:{service}:${{region}}:${{account}}:")


def _has(policy: str, statement: Document) -> bool:
    statements = json.loads(policy).get("Statement", []) if policy else []
    return statement in (statements if isinstance(statements, list) else [statements])


def _tags(found: Found) -> Document:
    return {"tags": dict(found.tags)} if found.tags else {}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML ships no types
    """Quotes what `cns_cli.config.source` would read as a number: YAML 1.1 takes some for text."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None if isinstance(plain_value(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(document: Document) -> str:
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
