"""Generates pairs of a filter policy and a message that nearly matches it; a seed determines the pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.filters.messages import MessageWriter
from tests.filters.policies import COMPLEXITY_MAX, PolicyWriter, complexity
from tests.filters.pools import written

BODY = "MessageBody"
ATTRIBUTES = "MessageAttributes"
MESSAGES_A_POLICY = 5


@dataclass(frozen=True, slots=True)
class Case:
    """`attributes`: name → (type, value). `operators`: the operators in the policy."""

    policy: str
    scope: str
    attributes: dict[str, tuple[str, str]]
    body: str
    operators: frozenset[str]

    def describe(self) -> str:
        message = self.body if self.scope == BODY else self.attributes
        return f"policy ({self.scope}): {self.policy}\nmessage: {message}"


def cases(seed: int, count: int, *scopes: str) -> Iterator[Case]:
    random = Random(seed)
    made = 0
    while made < count:
        scope = random.choice(scopes)
        policy = PolicyWriter(random, nested=scope == BODY)
        if complexity(policy.policy) > COMPLEXITY_MAX:
            continue
        for _ in range(min(MESSAGES_A_POLICY, count - made)):
            message = MessageWriter(random, policy.leaves)
            yield Case(
                policy=written(policy.policy),
                scope=scope,
                attributes=message.attributes() if scope == ATTRIBUTES else {},
                body=message.body() if scope == BODY else "",
                operators=frozenset(policy.operators),
            )
            made += 1
