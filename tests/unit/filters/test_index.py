"""The index of filter policies: it misses nothing, evaluates little, and leaves nothing behind."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from cns.filters.evaluation import matches
from cns.filters.index import FilterIndex
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Filter, Scope
from cns.filters.parser import read_filter
from tests.unit.filters.mixes import ANY, MATCHING, MIXES, Mix

EVALUATIONS_MAX = 20
COUNTS = {"two exact keys": 10_000, "two numeric ranges": 10_000, "one exact key": 100_000}
"""Number of subscriptions of the other mixes."""
Policy = dict[str, Any]


def _policy(policy: Policy, scope: Scope = Scope.BODY) -> Filter:
    return read_filter(json.dumps(policy), scope, limits=ANY)[1]


def _body(body: Policy) -> MessageValues:
    values = body_values(json.dumps(body))
    assert values is not None
    return values


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Disable garbage collection: visiting many live subscriptions takes as long as making them."""
    gc.disable()
    yield
    gc.enable()


def _id(random: Random) -> str:
    return str(UUID(int=random.getrandbits(128)))


@pytest.mark.extended
@pytest.mark.parametrize("mix", MIXES, ids=[mix.name for mix in MIXES])
@pytest.mark.usefixtures("uncollected")
def test_of_a_crowd_ten_match_by_few_evaluations(mix: Mix) -> None:
    index, n = FilterIndex(), COUNTS.get(mix.name, 2_000)
    expected = _fill(index, mix, range(n))
    found = index.find(mix.scope, mix.message_values())
    assert found == expected
    assert len(found) == MATCHING
    assert index.evaluations <= EVALUATIONS_MAX * (1 if n <= 10_000 else 2)


def test_all_mixes_in_one_topic_do_not_disturb_one_another() -> None:
    index = FilterIndex()
    expected = {mix.name: _fill(index, mix, range(300)) for mix in MIXES}
    for mix in MIXES:
        before = index.evaluations
        found = index.find(mix.scope, mix.message_values())
        assert [each for each in found if each.startswith(mix.name)] == expected[mix.name], mix.name
        assert index.evaluations - before <= 3 * EVALUATIONS_MAX


def _fill(index: FilterIndex, mix: Mix, numbers: range) -> list[str]:
    """Returns the ids of those that the mix's message is for."""
    values, matching = mix.message_values(), []
    for number, policy in zip(numbers, mix.policies(numbers), strict=True):
        subscription_id = f"{mix.name} {number:06}"
        index.put(subscription_id, "sqs", policy)
        if matches(policy, values):
            matching.append(subscription_id)
    return matching


TEXTS = ["", "a", "ab", "abc", "Abc", "b", "bc", "c", "ABC", "é", "10.0.0.1", "10.0.0.200", "::1", "abab"]
NUMBERS = [
    "0",
    "1",
    "-1",
    "1.5",
    "2",
    "1.500001",
    "1.500009",
    "1.50001",
    "-1.000001",
    "-1.000009",
    "10",
    "99.99999",
    "1e3",
    "-1000000000",
    "1e400",
    "1e99999999999999999999",
]
PATHS = ["a", "b", "c", "d.e", "d.f"]


class _Drawn:
    """Policies and bodies over so few paths and values that many of them meet."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def policy(self) -> Filter:
        policy = self._group(self.random.randint(1, 3))
        if self.random.random() < 0.25:
            policy["$or"] = [self._group(self.random.randint(1, 2)) for _ in range(self.random.randint(2, 3))]
        return _policy(policy)

    def message_values(self) -> MessageValues:
        body: Policy = {}
        for path in self.random.sample(PATHS, self.random.randint(0, len(PATHS))):
            *parents, name = path.split(".")
            place = body
            for parent in parents:
                place = place.setdefault(parent, {})
            place[name] = self._value()
        if "d" in body and self.random.random() < 0.5:
            body["d"] = [body["d"], {"e": self._scalar(), "f": self._scalar()}]
        text = json.dumps(body).replace('"#', "").replace('#"', "")
        values = body_values(text)
        assert values is not None
        return values

    def _value(self) -> object:
        if self.random.random() < 0.3:
            return [self._scalar() for _ in range(self.random.randint(0, 4))]
        return self._scalar()

    def _scalar(self) -> object:
        number = f"#{self.random.choice(NUMBERS)}#"  # json.dumps would spell it its own way
        return self.random.choice([self.random.choice(TEXTS), number, True, False, None])

    def _group(self, n: int) -> Policy:
        return {path: self._conditions() for path in self.random.sample(PATHS, n)}

    def _conditions(self) -> list[object]:
        return [self._condition() for _ in range(self.random.choice([1, 1, 1, 2, 3]))]

    def _condition(self) -> object:
        text = self.random.choice(TEXTS)
        low, high = sorted(self.random.sample([-1_000_000_000, -1, 0, 1, 1.5, 2, 10, 100, 1000], 2))
        return self.random.choice([
            text,
            self.random.choice([0, 1, 1.5, 10]),
            self.random.choice([True, False, None]),
            {self.random.choice(["prefix", "suffix", "equals-ignore-case"]): text or "a"},
            {self.random.choice(["prefix", "suffix"]): {"equals-ignore-case": text or "A"}},
            {"wildcard": self.random.choice(["a*", "*c", "a*c", "*b*", "ab*ab", "*"])},
            {"anything-but": self.random.choice([text, [text, "a"], 1, {"prefix": "a"}])},
            {"numeric": self.random.choice([["=", low], [">", low], [">=", low], ["<", high], ["<=", high]])},
            {"numeric": [self.random.choice([">", ">="]), low, self.random.choice(["<", "<="]), high]},
            {"exists": self.random.random() < 0.5},
            {"cidr": self.random.choice(["10.0.0.0/24", "10.0.0.0/30", "0.0.0.0/0", "::/64", "::1/127"])},
        ])  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_finds_what_evaluating_all_policies_finds(seed: int) -> None:
    drawn, index = _Drawn(seed), FilterIndex()
    policies: dict[str, tuple[str, Filter]] = {}
    for _ in range(12):
        for _ in range(60):
            _change(drawn, index, policies)
        for values in [drawn.message_values() for _ in range(25)]:
            matching = {name: group for name, (group, policy) in policies.items() if matches(policy, values)}
            for groups in (None, ["sqs"], ["lambda", "http"], []):
                expected = [name for name, group in matching.items() if groups is None or group in groups]
                assert index.find(Scope.BODY, values, groups) == sorted(expected)
    for name in policies:
        index.remove(name)
    assert _is_empty(index)


def _change(drawn: _Drawn, index: FilterIndex, policies: dict[str, tuple[str, Filter]]) -> None:
    random = drawn.random
    if policies and random.random() < 0.3:
        name = random.choice(list(policies))
        del policies[name]
        index.remove(name)
        return
    name = random.choice(list(policies)) if policies and random.random() < 0.2 else _id(random)
    shared = random.choice(list(policies.values()))[1] if policies and random.random() < 0.2 else None
    policies[name] = random.choice(["sqs", "lambda", "http"]), shared or drawn.policy()
    index.put(name, *policies[name])


def _is_empty(index: FilterIndex) -> bool:
    return len(index) == 0 and not index._rules and all(tree.is_empty for tree in index._trees.values())


def test_scopes_do_not_see_one_another() -> None:
    index = FilterIndex()
    index.put("1", "sqs", _policy({"a": ["x"]}, Scope.BODY))
    index.put("2", "sqs", _policy({"a": ["x"]}, Scope.ATTRIBUTES))
    attributes = attribute_values({"a": ("String", "x")})
    assert attributes is not None
    assert index.find(Scope.BODY, _body({"a": "x"})) == ["1"]
    assert index.find(Scope.ATTRIBUTES, attributes) == ["2"]


def test_equal_policies_are_evaluated_once() -> None:
    index = FilterIndex()
    for number in range(1_000):
        index.put(f"{number:03}", ("sqs", "lambda")[number % 2], _policy({"a": [f"v{number % 40}"]}))
    assert len(index.find(Scope.BODY, _body({"a": ["v0", "v1"]}))) == 50
    assert index.evaluations == 2
    assert len(index.find(Scope.BODY, _body({"a": ["v0", "v1"]}), ["sqs"])) == 25
    assert index.evaluations == 3  # no member of the group has the other policy


def test_pages_of_what_was_found_once() -> None:
    index, random = FilterIndex(), Random(2)
    ids = sorted(_id(random) for _ in range(1_000))
    for number, subscription_id in enumerate(random.sample(ids, len(ids))):
        index.put(subscription_id, "sqs", _policy({"a": ["x", f"own-{number % 30}"]}))
    found = index.search(Scope.BODY, _body({"a": "x"}))
    pages, after = [], ""
    while page := found.page(after, 64):
        assert page == index.find(Scope.BODY, _body({"a": "x"}), after=after, n=64)
        pages += page
        after = page[-1]
    assert pages == ids
    assert found.page(ids[-2]) == ids[-1:]
    assert found.page("", 0) == []


def test_between_pages_somebody_leaves_and_somebody_comes() -> None:
    index, policy = FilterIndex(), _policy({"a": ["x"]})
    for name in ("1", "3", "5"):
        index.put(name, "sqs", policy)
    found = index.search(Scope.BODY, _body({"a": "x"}))
    assert found.page(n=1) == ["1"]
    index.remove("3")
    index.put("4", "sqs", policy)
    assert found.page("1") == ["4", "5"]


def test_two_searches_are_read_as_one() -> None:
    index = FilterIndex()
    for name, group in (("1", "sqs"), ("2", "http"), ("3", "sqs")):
        index.put(name, group, _policy({"a": [group]}))
    queues = index.search(Scope.BODY, _body({"a": "sqs"}), ["sqs"])
    assert (queues | index.search(Scope.BODY, _body({"a": "http"}), ["http"])).page(n=2) == ["1", "2"]


def test_what_is_put_again_is_changed() -> None:
    index = FilterIndex()
    index.put("1", "sqs", _policy({"a": ["x"]}))
    index.put("1", "http", _policy({"b": ["y"]}))
    assert index.find(Scope.BODY, _body({"a": "x"})) == []
    assert index.find(Scope.BODY, _body({"b": "y"}), ["http"]) == ["1"]
    assert len(index) == 1
    index.remove("unknown")
    index.remove("1")
    assert _is_empty(index)


def test_long_arrays_meet_in_one_place_once() -> None:
    index = FilterIndex()
    for number in range(100):
        near = {"numeric": [">=", 0, "<", 1000 + number]}
        index.put(f"{number:02}", "sqs", _policy({"a": [near], "b": [near], "c": [near], "d": [{"exists": True}]}))
    numbers = list(range(500))
    found = index.find(Scope.BODY, _body({"a": numbers, "b": numbers, "c": numbers, "d": 1}))
    assert len(found) == 100


@pytest.mark.extended
@pytest.mark.parametrize(("distinct", "bytes_max"), [(2_000, 1_200), (100, 260)])
def test_memory_of_a_subscription(distinct: int, bytes_max: int) -> None:
    """Its policy and its id counted: 120 MiB for 100,000."""
    index, random, n = FilterIndex(), Random(3), 2_000
    texts = [json.dumps({"store": [f"s{number}"], "kind": [f"k{number % 50}"]}) for number in range(distinct)]
    gc.collect()
    tracemalloc.start()
    policies = [read_filter(text, Scope.BODY)[1] for text in texts]
    for number in range(n):
        index.put(_id(random), "sqs", policies[number % distinct])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / n < bytes_max
