"""The differences between declared resources and those of a service, and the calls that remove them.

A crash between two calls leaves differences that the next run finds."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal

import msgspec

from cns_cli.config.document import Document
from cns_cli.config.resources import Calls, Found, Kind
from cns_cli.config.source import ConfigError, Path, Refused, Source
from cns_cli.config.wanted import POLICY, REDRIVE, Reader, Wanted, dead_letter_name, named_arns
from cns_cli.queue_policy import statement_for, with_statement
from cns_common.errors import RequestError

Action = Literal["create", "change", "delete", "keep"]
Step = Callable[[], Awaitable[None]]
DONE: Mapping[Action, str] = {"create": "created", "change": "changed", "delete": "deleted", "keep": "unchanged"}
SHOWN_CHARS_MAX = 60


class ValueChange(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    name: str
    before: str
    after: str


class Change(msgspec.Struct, frozen=True):
    """A difference of one resource. `keep`: there is none."""

    action: Action
    kind: str
    name: str
    account: str
    values: Sequence[ValueChange] = ()

    def text(self, word: str, *, accounts: bool) -> str:
        """One line, and one for each value. `accounts`: others have resources of this name."""
        place = f" of account {self.account}" if accounts and self.account not in self.name else ""
        lines = [f"{word} {self.kind} {self.name}{place}"]
        lines += [f"    {one.name}: {_short(one.before)} → {_short(one.after)}" for one in self.values]
        return "\n".join(lines)


class Planned(msgspec.Struct, frozen=True):
    change: Change
    steps: Sequence[Step] = ()


def read_parts(document: Document, calls_of: Callable[[str], Calls]) -> list[tuple[Reader, list[Wanted]]]:
    """The resources of each account that the file gives some: of '' first, which is the caller's. Raises ConfigError
    with all problems of the file."""
    source, file, problems = document.source, document.file, [*document.problems]
    parts: dict[str, tuple[Reader, list[Wanted]]] = {}
    for number, contents in {"": file, **file.accounts}.items():
        if not contents.names_resources():
            continue
        base: Path = ("accounts", number) if number else ()
        try:
            calls = calls_of(number)
        except RequestError as error:  # nothing says which account
            problems.append(source.problem(base, error.message))
            continue
        if calls.account in parts:
            problems.append(source.problem(base, "has resources at the top of the file, too: give them in one place"))
        reader = Reader(source, calls, base)
        parts[calls.account] = reader, reader.read(contents)
        problems += reader.problems
    if problems:
        raise ConfigError(source.name, problems)
    return list(parts.values())


async def plan_file(document: Document, calls_of: Callable[[str], Calls], *, prune: bool = False) -> list[Planned]:
    """The changes that make queues, topics and subscriptions as the file says: a subscription may be to the topic of an
    account further down. Raises ConfigError."""
    planned: list[Planned] = []
    removals: list[Planned] = []
    parts = read_parts(document, calls_of)
    named = {arn for _, wanted in parts for one in wanted for arn in named_arns(one)}
    for reader, wanted in parts:
        planned += await _plan(document.source, wanted)
        removals += await _plan_removals(reader.kinds, wanted, named) if prune else []
    planned.sort(key=lambda one: one.change.kind == "subscription")
    return planned + removals


async def run_steps(planned: Sequence[Planned], done: Callable[[Change], None]) -> None:
    """Make the changes, and report each that is done. Raises ConfigError for a refusal."""
    for one in planned:
        for step in one.steps:
            await step()
        done(one.change)


async def _plan(source: Source, wanted: Sequence[Wanted]) -> list[Planned]:
    """The changes, in the order of their calls. Raises ConfigError."""
    absent = {one.name for one in wanted if one.kind.kind == "queue"}
    planned: list[Planned] = []
    circles: list[Planned] = []
    for one in wanted:
        with _refusals(source, one):
            found = await one.kind.find(one.name)
            if found is None and one.implied:
                raise RequestError("QueueDoesNotExist", "The specified queue does not exist.")
        first, second = one, None
        if found is None and dead_letter_name(one) in absent:  # it comes later: the two are in a circle
            first = replace(one, attributes={name: text for name, text in one.attributes.items() if name != REDRIVE})
            second = replace(one, attributes={REDRIVE: one.attributes[REDRIVE]}, tags=None, topics=())
        absent.discard(one.name)
        planned.append(_planned(source, first, found))
        if second is not None:
            circles.append(_planned(source, second, Found({})))
    return planned + circles


async def _plan_removals(kinds: Iterable[Kind], wanted: Sequence[Wanted], named: Container[str]) -> list[Planned]:
    """Deletions of what is not wanted, and not named by its ARN, in the reverse order of creation."""
    kept = {(one.kind.kind, one.kind.listed_name(one.name)) for one in wanted}
    planned = []
    for kind in reversed(list(kinds)):
        for name in await kind.names():
            is_kept = (kind.kind, name) in kept or kind.arn(kind.service, name) in named
            found = None if is_kept else await kind.find(name)
            if found is not None and found.changeable:
                change = Change("delete", kind.kind, name, kind.calls.account)
                planned.append(Planned(change, [partial(kind.delete, name)]))
    return planned


def _planned(source: Source, one: Wanted, found: Found | None) -> Planned:
    kind, name = one.kind, one.name
    wanted = _with_allowed(one, {} if found is None else found.attributes)
    if found is None:
        given = {attribute: text for attribute, text in wanted.items() if text}
        values = [ValueChange(attribute, "", text) for attribute, text in given.items()]
        create = partial(kind.create, name, given, one.tags or {})
        return Planned(_change("create", one, values), [_step(source, one, create, given)])
    current = found.attributes
    changed = (
        {attribute: text for attribute, text in wanted.items() if kind.differs(name, current, attribute, text)}
        if found.changeable
        else {}
    )
    values = [ValueChange(attribute, current.get(attribute, ""), text) for attribute, text in changed.items()]
    steps = [_step(source, one, partial(kind.change, name, changed), changed)] if changed else []
    if one.tags is not None and one.tags != found.tags:
        values.append(ValueChange("tags", json.dumps(found.tags), json.dumps(one.tags)))
        gone = [key for key in found.tags if key not in one.tags]
        steps.append(_step(source, one, partial(kind.retag, name, one.tags, gone)))
    return Planned(_change("change" if steps else "keep", one, values), steps)


def _change(action: Action, one: Wanted, values: list[ValueChange]) -> Change:
    return Change(action, one.kind.kind, one.kind.listed_name(one.name), one.kind.calls.account, values)


def _with_allowed(one: Wanted, current: Mapping[str, str]) -> Mapping[str, str]:
    """The wanted attributes; a policy has the statements of the topics that the queue is to allow."""
    if not one.topics:
        return one.attributes
    policy = one.attributes.get(POLICY, current.get(POLICY, ""))
    for topic in one.topics:
        policy = with_statement(policy, statement_for(one.kind.arn("sqs", one.name), topic))
    return {**one.attributes, POLICY: policy}


def _step(
    source: Source, one: Wanted, call: Callable[[], Awaitable[None]], changed: Iterable[str] = ()
) -> Callable[[], Awaitable[None]]:
    async def step() -> None:
        with _refusals(source, one, changed):
            await call()

    return step


@contextmanager
def _refusals(source: Source, one: Wanted, changed: Iterable[str] = ()) -> Iterator[None]:
    """Raise a refusal of the service as Refused, with the place in the file."""
    try:
        yield
    except RequestError as error:
        named = next((name for name in changed if name in error.message), "")
        place = one.paths.get(named, one.path)
        raise Refused(source.name, [source.problem(place, f"{error.code}: {error.message}")]) from None


def _short(text: str) -> str:
    return (text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…") or "-"
