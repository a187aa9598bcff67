"""Counts the steps of a regular expression: a backtracking matcher over the parse tree of `re`.

It goes the way that `re`'s own matcher goes: alternatives in order, greedy repeats from long to short, no memory of
what failed. It leaves out that matcher's short cuts (a literal prefix that is searched for first, a look at the next
character before a repeat is given back), which save a constant factor at most. So a pattern whose steps grow with the
square of its text does so in `re` too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

op, parser = import_module("re._constants"), import_module("re._parser")
"""Private, and the only way to a parse tree."""

Rest = Callable[[int], int]
"""Matches the rest of the pattern from a position. Returns the end of the whole match, or FAILED."""
Node = Callable[[int, Rest], int]
Test = Callable[[str], bool]

FAILED = -1
FRAMES_MAX = 50_000
"""Limit of Python's stack: the matcher calls itself once or twice for each character."""


class TooManySteps(Exception):
    """The budget is spent: steps grow faster than any test wants to wait for."""


class StepCounter:
    """One pattern; `steps` counts over all its calls, up to `budget`."""

    def __init__(self, pattern: re.Pattern[Any], budget: int = 2_000_000) -> None:
        self.steps = 0
        self._budget = budget
        self._ignore_case = bool(pattern.flags & re.IGNORECASE)
        self._ascii = isinstance(pattern.pattern, bytes) or bool(pattern.flags & re.ASCII)
        self._dot_all = bool(pattern.flags & re.DOTALL)
        self._text = ""
        self._match = self._sequence(parser.parse(pattern.pattern, pattern.flags))

    def run(self, use: str, text: str) -> None:
        """As the method of that name of a pattern; those that find many count as finditer."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(FRAMES_MAX)
        try:
            self._run(use, text)
        finally:
            sys.setrecursionlimit(limit)

    def _run(self, use: str, text: str) -> None:
        self._text = text
        if use == "match":
            self._match(0, lambda end: end)
        elif use == "fullmatch":
            self._match(0, lambda end: end if end == len(text) else FAILED)
        else:
            for _ in self._found():
                if use == "search":
                    return

    def ends(self, text: str) -> list[int]:
        """The ends of finditer's matches, none of them empty."""
        self._text = text
        return list(self._found())

    def _found(self) -> Iterator[int]:
        start = 0
        while start <= len(self._text):
            end = self._match(start, lambda end: end)
            if end != FAILED:
                yield end
            start = max(end, start + 1)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._budget:
            raise TooManySteps

    # -- nodes of the tree --------------------------------------------------------------------------------------------

    def _sequence(self, items: Any) -> Node:
        nodes = [self._node(*item) for item in items]

        def match_from(index: int, at: int, rest: Rest) -> int:
            if index == len(nodes):
                return rest(at)
            return nodes[index](at, lambda end: match_from(index + 1, end, rest))

        return lambda at, rest: match_from(0, at, rest)

    def _node(self, code: Any, argument: Any) -> Node:
        test = self._character(code, argument)
        if test is not None:
            return self._one(test)
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self._repeat(code, *argument)
        if code is op.SUBPATTERN:
            if argument[1] or argument[2]:
                raise NotImplementedError("flags of a group: teach the step counter these")
            return self._sequence(argument[3])
        if code is op.BRANCH:
            return self._branch([self._sequence(branch) for branch in argument[1]])
        if code is op.ATOMIC_GROUP:
            return self._atomic(self._sequence(argument))
        if code in (op.ASSERT, op.ASSERT_NOT):
            return self._look(code is op.ASSERT, argument[0], self._sequence(argument[1]), argument[1])
        if code is op.AT:
            return self._anchor(argument)
        raise NotImplementedError(f"{code}: teach the step counter this node")

    def _one(self, test: Test) -> Node:
        def match(at: int, rest: Rest) -> int:
            self._step()
            return rest(at + 1) if at < len(self._text) and test(self._text[at]) else FAILED

        return match

    def _repeat(self, code: Any, least: int, most: int, items: Any) -> Node:
        single = self._character(*items[0]) if len(items) == 1 else None
        if code is op.POSSESSIVE_REPEAT:
            return self._atomic(self._repeat(op.MAX_REPEAT, least, most, items))
        if single is not None:
            return self._run_of(single, least, most, greedy=code is op.MAX_REPEAT)
        return self._repeat_of(self._sequence(items), least, most, greedy=code is op.MAX_REPEAT)

    def _run_of(self, test: Test, least: int, most: int, *, greedy: bool) -> Node:
        def match(at: int, rest: Rest) -> int:
            lengths = self._run_lengths(test, at, least, most, greedy=greedy)
            return next((end for length in lengths if (end := rest(at + length)) != FAILED), FAILED)

        return match

    def _run_lengths(self, test: Test, at: int, least: int, most: int, *, greedy: bool) -> Iterator[int]:
        """The ends of a repeated character, in the order in which the matcher tries them."""
        length, room = 0, min(most, len(self._text) - at)
        while length < room:
            if not greedy and length >= least:
                self._step()
                yield length
            self._step()
            if not test(self._text[at + length]):
                if not greedy:
                    return
                break
            length += 1
        while length >= least:
            self._step()
            yield length
            if not greedy:
                return
            length -= 1

    def _repeat_of(self, node: Node, least: int, most: int, *, greedy: bool) -> Node:
        def match_after(count: int, at: int, rest: Rest) -> int:
            self._step()

            def once_more() -> int:
                if count == most:
                    return FAILED
                return node(at, lambda end: match_after(count + 1, end, rest) if end > at else FAILED)

            if count < least:
                return once_more()
            for attempt in (once_more, lambda: rest(at)) if greedy else (lambda: rest(at), once_more):
                if (end := attempt()) != FAILED:
                    return end
            return FAILED

        return lambda at, rest: match_after(0, at, rest)

    def _branch(self, nodes: list[Node]) -> Node:
        def match(at: int, rest: Rest) -> int:
            for node in nodes:
                self._step()
                if (end := node(at, rest)) != FAILED:
                    return end
            return FAILED

        return match

    def _atomic(self, node: Node) -> Node:
        def match(at: int, rest: Rest) -> int:
            end = node(at, lambda inner: inner)
            return rest(end) if end != FAILED else FAILED

        return match

    def _look(self, wanted: bool, direction: int, node: Node, items: Any) -> Node:
        width = items.getwidth()[0] if direction < 0 else 0

        def match(at: int, rest: Rest) -> int:
            self._step()
            found = at >= width and node(at - width, lambda inner: inner) != FAILED
            return rest(at) if found is wanted else FAILED

        return match

    def _anchor(self, where: Any) -> Node:
        def match(at: int, rest: Rest) -> int:
            self._step()
            return rest(at) if self._is_at(where, at) else FAILED

        return match

    def _is_at(self, where: Any, at: int) -> bool:
        text = self._text
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0
        if where is op.AT_END_STRING:
            return at == len(text)
        if where is op.AT_END:
            return at == len(text) or (at == len(text) - 1 and text[at] == "\n")
        word = re.compile(r"\w", re.ASCII if self._ascii else 0)
        beside = [0 <= index < len(text) and word.match(text[index]) is not None for index in (at - 1, at)]
        return (beside[0] is not beside[1]) is (where is op.AT_BOUNDARY)

    # -- characters ---------------------------------------------------------------------------------------------------

    def _character(self, code: Any, argument: Any) -> Test | None:
        """Whether a character is one of a node's; None for a node that is no single character."""
        if code is op.ANY:
            return lambda character: self._dot_all or character != "\n"
        if code in (op.LITERAL, op.NOT_LITERAL):
            wanted = code is op.LITERAL
            return lambda character: self._same(character, argument) is wanted
        if code is op.IN:
            negated = argument[0][0] is op.NEGATE
            return lambda character: any(self._member(character, *item) for item in argument[negated:]) is not negated
        return None

    def _member(self, character: str, code: Any, argument: Any) -> bool:
        if code is op.LITERAL:
            return self._same(character, argument)
        if code is op.RANGE:
            return any(argument[0] <= ord(each) <= argument[1] for each in self._cases(character))
        shorthand = {
            op.CATEGORY_DIGIT: r"\d",
            op.CATEGORY_NOT_DIGIT: r"\D",
            op.CATEGORY_SPACE: r"\s",
            op.CATEGORY_NOT_SPACE: r"\S",
            op.CATEGORY_WORD: r"\w",
            op.CATEGORY_NOT_WORD: r"\W",
        }[argument]
        return re.match(shorthand, character, re.ASCII if self._ascii else 0) is not None

    def _same(self, character: str, code: int) -> bool:
        return code in (ord(each) for each in self._cases(character))

    def _cases(self, character: str) -> tuple[str, ...]:
        if not self._ignore_case:
            return (character,)
        return tuple(each for each in (character, character.lower(), character.upper()) if len(each) == 1)
