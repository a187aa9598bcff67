"""The pages of docs/operations, which tests compare with the code."""

from __future__ import annotations

from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "operations"
TEXT = "\n".join(path.read_text() for path in sorted(PAGES.glob("*.md")))


def section(title: str) -> str:
    """The text of the one section of this title, up to the next of its level, or to the end of its page."""
    _, begin, rest = TEXT.partition(f"\n## {title}\n")
    assert begin and f"\n## {title}\n" not in rest, title
    return rest.partition("\n## ")[0].partition("\n\n# ")[0]
