"""The pages of the site and their links: links to pages are kept, links to other files become text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AT_THE_ROOT: Mapping[str, str] = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "examples/README.md": "examples/index.md",
}
"""Files outside docs/, and the names of their pages."""
PROGRAMS = ("*.py", "*.tf", "*.yaml", "*.java", "pom.xml", "*.mjs", "package.json")
"""The files of examples/ that the site has."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


@cache
def sources() -> Mapping[Path, str]:
    """The files of the site, and their names in it."""
    documents = {path: str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    pictures = {path: str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.svg")}
    examples = [
        path for kind in PROGRAMS for path in (ROOT / "examples").rglob(kind) if "node_modules" not in path.parts
    ]
    programs = {path: str(path.relative_to(ROOT)) for path in examples}
    return {**documents, **pictures, **programs, **{ROOT / name: page for name, page in AT_THE_ROOT.items()}}


def page_of(source: Path) -> str:
    """The text of a page, with links as they are in the site. Code is left as it is."""
    parts = _FENCE.split(source.read_text())
    return "".join(part if part.startswith("```") else _relink(source, part) for part in parts)


def _relink(source: Path, text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        picture, label, link = found.groups()
        file, hash_sign, anchor = link.partition("#")
        if not file or ":" in file:
            return found[0]
        name = sources().get((source.parent / file).resolve())
        if name is None:
            return label  # a file of the source, not of the site
        relative = os.path.relpath(name, Path(sources()[source]).parent)
        return f"{picture}[{label}]({relative}{hash_sign}{anchor})"

    return _LINK.sub(replace, text)
