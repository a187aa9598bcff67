"""The index finds the same subscriptions as evaluating each policy, after any sequence of changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from cns.filters.evaluation import matches
from cns.filters.index import FilterIndex
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Filter, Scope
from cns.filters.parser import read_filter
from tests.filters.messages import MessageWriter
from tests.filters.policies import COMPLEXITY_MAX, PolicyWriter, complexity
from tests.filters.pools import written
from tests.marks import examples, first

SEEDS = first(range(3))
SUBSCRIPTIONS = 300
ROUNDS = examples(40)
CHANGES_A_ROUND = 30
MESSAGES_A_ROUND = 6
GROUPS = ("sqs", "http", "email")
FOUND_MIN = examples(2_000)


@dataclass(slots=True)
class Topic:
    """An index, and the policies in it, to evaluate one by one."""

    random: Random
    scope: Scope
    index: FilterIndex = field(default_factory=FilterIndex)
    subscriptions: dict[str, tuple[str, PolicyWriter, Filter]] = field(default_factory=dict)

    def change(self) -> None:
        """Add a subscription, replace a policy, or remove a subscription."""
        random = self.random
        name = f"s{random.randrange(2 * SUBSCRIPTIONS):03}"
        if name in self.subscriptions and random.random() < 0.6:
            del self.subscriptions[name]
            self.index.remove(name)
            return
        group = random.choice(GROUPS)
        writer, policy = self._policy()
        self.subscriptions[name] = group, writer, policy
        self.index.put(name, group, policy)

    def messages(self, count: int) -> Iterator[tuple[str, MessageValues]]:
        """Messages that nearly match one of the policies."""
        writers = [writer for _, writer, _ in self.subscriptions.values()]
        for _ in range(count):
            message = MessageWriter(self.random, self.random.choice(writers).leaves)
            if self.scope is Scope.BODY:
                text = message.body()
                values = body_values(text)
            else:
                attributes = message.attributes()
                text, values = str(attributes), attribute_values(attributes)
            if values is not None:
                yield text, values

    def found_one_by_one(self, values: MessageValues, *groups: str) -> list[str]:
        return sorted(
            name
            for name, (group, _, policy) in self.subscriptions.items()
            if group in groups and matches(policy, values)
        )

    def _policy(self) -> tuple[PolicyWriter, Filter]:
        """A new policy, or sometimes that of another subscription."""
        if self.subscriptions and self.random.random() < 0.2:
            return self.random.choice(list(self.subscriptions.values()))[1:]
        while True:
            writer = PolicyWriter(self.random, nested=self.scope is Scope.BODY)
            if complexity(writer.policy) <= COMPLEXITY_MAX:
                return writer, read_filter(written(writer.policy), self.scope)[1]


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("seed", SEEDS)
def test_the_index_finds_what_asking_each_finds(seed: int, scope: Scope) -> None:
    topic = Topic(Random(seed), scope)
    while len(topic.subscriptions) < SUBSCRIPTIONS:
        topic.change()
    found = 0
    for _ in range(ROUNDS):
        for text, values in topic.messages(MESSAGES_A_ROUND):
            wanted = topic.found_one_by_one(values, *GROUPS)
            assert topic.index.find(scope, values) == wanted, _told(topic, values, text)
            assert topic.index.find(scope, values, GROUPS[:2]) == topic.found_one_by_one(values, *GROUPS[:2])
            found += len(wanted)
        for _ in range(CHANGES_A_ROUND):
            topic.change()
    assert found >= FOUND_MIN
    assert len(topic.index) == len(topic.subscriptions)


@pytest.mark.parametrize("scope", list(Scope))
def test_an_index_emptied_finds_nothing(scope: Scope) -> None:
    topic = Topic(Random(7), scope)
    while len(topic.subscriptions) < SUBSCRIPTIONS:
        topic.change()
    messages = list(topic.messages(MESSAGES_A_ROUND))
    for name in topic.subscriptions:
        topic.index.remove(name)
    assert [topic.index.find(scope, values) for _, values in messages] == [[] for _ in messages]
    assert len(topic.index) == 0


def _told(topic: Topic, values: MessageValues, text: str) -> str:
    wrong = set(topic.index.find(topic.scope, values)) ^ set(topic.found_one_by_one(values, *GROUPS))
    policies = [
        written(topic.subscriptions[name][1].policy) for name in sorted(wrong)[:3] if name in topic.subscriptions
    ]
    return f"message: {text}\nsubscriptions: {sorted(wrong)}\npolicies: {policies}"
