"""The table of causes: whole, true to the code, and the one that operators read."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cns.delivery.failure_causes import CAUSES, End, FinalCause, RetryChance
from cns.endpoints.outcome import Cause
from tests.operator_docs import TEXT

ROOT = Path(__file__).parents[3]
TABLE = "cns/delivery/failure_causes.py"
PACKAGES = ("cns", "workers", "cns_backend", "cns_server", "cns_cli", "cns_pipeline")
ENDINGS = set(FinalCause) - {FinalCause.RECEIVES}  # a usual word
NAMED = re.compile("|".join([r"\bCause\.", *[f"{end}:" for end in End], *ENDINGS]))
TRIED_AGAIN = {
    frozenset({False}): {RetryChance.YES},
    frozenset({True}): {RetryChance.NO, RetryChance.OF_REMOTE_QUEUE},
    frozenset({False, True}): {RetryChance.BY_ANSWER},
}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """The syntax of all modules that name a cause."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = path.read_text()
        if NAMED.search(text):
            for node in ast.walk(ast.parse(text)):
                yield path.relative_to(ROOT).as_posix(), node


def causes_in(node: ast.AST) -> set[Cause]:
    found = [one for one in ast.walk(node) if isinstance(one, ast.Attribute)]
    return {Cause[one.attr] for one in found if isinstance(one.value, ast.Name) and one.value.id == "Cause"}


def permanence(call: ast.Call) -> set[bool]:
    """The values that `permanent` may have."""
    given = [one.value for one in call.keywords if one.arg == "permanent"]
    if not given:
        return {False}
    return {bool(given[0].value)} if isinstance(given[0], ast.Constant) else {False, True}


def test_each_cause_has_words() -> None:
    assert set(CAUSES) == {*Cause, *FinalCause}
    assert len({one.title for one in CAUSES.values()}) == len(CAUSES)


def test_only_the_table_spells_causes() -> None:
    composite = re.compile(f"({'|'.join(End)}):[a-z_]+")
    texts = [(path, one.value) for path, one in nodes() if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    assert {path for path, text in texts if text in ENDINGS} == {TABLE}
    assert [(path, text) for path, text in texts if composite.fullmatch(text)] == []


def test_the_table_tells_which_failures_are_tried_again() -> None:
    """As the code makes failures; recipients that are checked before a delivery fail for good."""
    permanent: defaultdict[Cause, set[bool]] = defaultdict(set)
    for _, node in nodes():
        if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Call):
            for cause in causes_in(node.value):
                permanent[cause].add(True)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Failed":
            for cause in causes_in(node.args[0]):
                permanent[cause] |= permanence(node)
    permanent[Cause.MAIL_RELAY].discard(True)  # one call with mail_refused; what is about the relay is not permanent
    assert set(permanent) == set(Cause)
    wrong = [cause for cause, seen in permanent.items() if CAUSES[cause].retry not in TRIED_AGAIN[frozenset(seen)]]
    assert wrong == []


def test_operators_read_the_same_words() -> None:
    table = TEXT.partition("| code | in words |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (.*) \|$", table, re.MULTILINE)
    assert rows == [(code, one.title, one.advice, one.retry) for code, one in CAUSES.items()]
