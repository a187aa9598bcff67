"""Each rule of tests/spec has a test or a reason, by the texts of the tests. `make test-all` looks at what passed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.run_stages import STAGES
from tests.spec.rules import load_rules

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r'"([a-z][\w+-]*\.[\w.+-]+)"')
COMPUTED = re.compile(r'spec\(f"([\w.-]+)\{|"((?:sns-)?error\.)"')
"""The beginning of an id that a test makes of its parameters."""


def test_each_rule_has_either_a_test_or_a_reason() -> None:
    texts = [path.read_text() for path in TESTS.rglob("test_*.py")]
    named = {rule for text in texts for rule in NAMED.findall(text)}
    computed = tuple({start or of_codes for text in texts for start, of_codes in COMPUTED.findall(text)})
    rules = load_rules().values()
    assert [rule.id for rule in rules if rule.untested and rule.id in named] == [], "tested, and said not to be"
    apart = {stage.name for stage in STAGES if stage.is_apart}
    assert {rule.apart for rule in rules if rule.apart} <= apart, "no stage that runs only where it is named"
    unnamed = [rule.id for rule in rules if not rule.untested and rule.id not in named]
    assert [rule for rule in unnamed if not rule.startswith(computed)] == [], "neither test nor reason"
