"""Each `type: ignore` and `noqa` of the product names its rule and has a reason behind a second `#`."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(
    path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name not in {"tests", "build", "dist"}
)
IGNORE = re.compile(r"#\s*(?:type:\s*ignore|noqa|ruff:\s*noqa|mypy:)")
JUSTIFIED = re.compile(
    r"# (?:type: ignore\[[a-z-]+(?:, [a-z-]+)*\]|(?:ruff: )?noqa: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*)  # \S+ \S+.*"
)


def faults(text: str) -> list[str]:
    """The comments of a module that ignore a rule without a reason."""
    comments = [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]
    return [comment for comment in comments if IGNORE.match(comment) and not JUSTIFIED.fullmatch(comment)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_ignore_has_a_reason(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {comment}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for comment in faults(path.read_text())
    }
    assert found == set()
