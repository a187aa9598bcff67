"""Resources as a file declares them, checked by the rules of SQS and SNS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic.alias_generators import to_camel

from cns_cli.config.model import Contents, DeadLetterQueue, Declared, Subscription
from cns_cli.config.resources import Calls, Kind, Queues, Subscriptions, Topics
from cns_cli.config.source import Path, Problem, Source, path_text
from cns_common.errors import RequestError

POLICY, REDRIVE = "Policy", "RedrivePolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A declared resource."""

    kind: Kind
    name: str
    path: Path
    attributes: Mapping[str, str]
    """As the service stores them; '' removes one."""
    paths: Mapping[str, Path]
    """The place of each attribute in the file."""
    tags: Mapping[str, str] | None = None
    """None: as they are."""
    topics: tuple[str, ...] = ()
    """ARNs of the topics that a queue's policy is to allow."""
    implied: bool = False
    """It is not declared itself: a subscription wants its policy."""


class Reader:
    """Makes the resources of one account's part of a file, and collects the problems."""

    def __init__(self, source: Source, calls: Calls, base: Path = ()) -> None:
        self._source = source
        self._calls = calls
        self._base = base
        self.queues, self.topics, self.subscriptions = Queues(calls), Topics(calls), Subscriptions(calls)
        self.problems: list[Problem] = []

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return self.queues, self.topics, self.subscriptions

    def read(self, contents: Contents) -> list[Wanted]:
        """In the order of their creation: a queue after its dead-letter queue."""
        queues = [self._wanted(self.queues, name, "queues", name, one) for name, one in contents.queues.items()]
        topics = [self._wanted(self.topics, name, "topics", name, one) for name, one in contents.topics.items()]
        subscriptions: dict[str, Wanted] = {}
        allowed: dict[str, list[Wanted]] = {}
        for number, one in enumerate(contents.subscriptions):
            made = self._subscription(number, one)
            if made is None:
                continue
            if made.name in subscriptions:
                self._refuse(made.path, f"is declared twice: {path_text(subscriptions[made.name].path)}")
            subscriptions[made.name] = made
            if one.allow:
                allowed.setdefault(one.endpoint, []).append(made)
        return [*_ordered(self._with_topics(queues, allowed)), *topics, *subscriptions.values()]

    def _subscription(self, number: int, given: Subscription) -> Wanted | None:
        path = (*self._base, "subscriptions", number)
        try:
            name = self.subscriptions.name(given.topic, given.protocol, given.endpoint)
        except RequestError as error:
            self._refuse(path, error.message)
            return None
        if given.filter_policy_scope and not given.filter_policy:
            self._refuse((*path, "filterPolicyScope"), "needs a filterPolicy")
        if given.allow and (given.protocol != "sqs" or given.endpoint.startswith("arn:")):
            self._refuse((*path, "allow"), "changes the policy of a queue of the account: name it as the endpoint")
        return self._wanted(self.subscriptions, name, "subscriptions", number, given)

    def _wanted(self, kind: Kind, name: str, part: str, key: str | int, given: Declared) -> Wanted:
        path = (*self._base, part, key)
        own = given.own_members()
        texts = {}
        members = {attribute: to_camel(member) for member, attribute in given.MEMBERS.items()}
        for attribute, text in given.attributes.items():
            if attribute in members:
                self._refuse((*path, "attributes", attribute), f"is given as {members[attribute]}")
            else:
                texts[attribute] = self._filled(text)
        texts |= {attribute: self._filled(self._text(attribute, value)) for attribute, (_, value) in own.items()}
        paths: dict[str, Path] = {
            attribute: (*path, own[attribute][0]) if attribute in own else (*path, "attributes", attribute)
            for attribute in texts
        }
        tags = given.given_tags()
        stored = {}
        try:
            kind.check(name, tags or {})
        except RequestError as error:
            self._refuse(path, error.message)
        for attribute in texts:
            try:
                stored[attribute] = kind.stored(name, texts, attribute)
            except RequestError as error:
                self._refuse(paths[attribute], error.message)
        return Wanted(kind=kind, name=name, path=path, attributes=stored, paths=paths, tags=tags)

    def _text(self, attribute: str, value: Any) -> str:
        if attribute != REDRIVE or not value:
            return "" if value is None else value if isinstance(value, str) else json.dumps(value)
        if isinstance(value, DeadLetterQueue):
            members = {"deadLetterTargetArn": self.queues.arn("sqs", value.queue)}
            return json.dumps({**members, "maxReceiveCount": value.max_receive_count})
        return json.dumps({"deadLetterTargetArn": self.queues.arn("sqs", value)})

    def _filled(self, text: str) -> str:
        return text.replace("${account}", self._calls.account).replace("${region}", self._calls.region)

    def _with_topics(self, queues: list[Wanted], allowed: Mapping[str, list[Wanted]]) -> list[Wanted]:
        """The queues, and others whose policies are to allow topics."""
        declared = {one.name: one for one in queues}
        for name, subscriptions in allowed.items():
            implied = Wanted(
                kind=self.queues, name=name, path=subscriptions[0].path, attributes={}, paths={}, implied=True
            )
            topics = tuple(dict.fromkeys([one.name.partition(" ")[0] for one in subscriptions]))
            declared[name] = replace(declared.get(name, implied), topics=topics)
        return list(declared.values())

    def _refuse(self, path: Path, text: str) -> None:
        self.problems.append(self._source.problem(path, text))


def named_arns(one: Wanted) -> tuple[str, ...]:
    """The ARNs of what it needs: its dead-letter queue first, '' for none, and a subscription's topic and queue."""
    text = one.attributes.get(REDRIVE, "")
    return (str(json.loads(text)["deadLetterTargetArn"]) if text else "", *one.name.split(" ", 2))


def dead_letter_name(one: Wanted) -> str:
    """The name of a queue's dead-letter queue; '' for none."""
    return named_arns(one)[0].rpartition(":")[2]


def _ordered(queues: list[Wanted]) -> list[Wanted]:
    """A queue after its dead-letter queue, where they are in no circle."""
    known = {one.name: one for one in queues}
    ordered: dict[str, Wanted] = {}
    for one in queues:
        chain: dict[str, Wanted] = {}
        current: Wanted | None = one
        while current is not None and current.name not in ordered and current.name not in chain:
            chain[current.name] = current
            current = known.get(dead_letter_name(current))
        ordered |= dict(reversed(chain.items()))
    return list(ordered.values())
