"""Release notes: the section of a version in CHANGELOG.md, with what breaks and how to upgrade first."""

from __future__ import annotations

import re

from deploy.servers.failure import Failure

FIRST = ("Breaking", "Upgrade")
UNRELEASED = "Unreleased"
_SECTION = re.compile(r"^## \[(?P<name>[^]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?\s*$", re.MULTILINE)
_PART = re.compile(r"^### (.+?)\s*$", re.MULTILINE)


def cut(changelog: str, version: str, *, unreleased: bool = False) -> str:
    """The notes of the version as Markdown; with `unreleased` those of the section Unreleased. Raises Failure if the
    section is missing, empty or without its date, or if the changes of a release are still under Unreleased."""
    pieces = _SECTION.split(changelog)
    sections = {name: (date, text) for name, date, text in zip(*(pieces[n::3] for n in (1, 2, 3)), strict=True)}
    wanted = UNRELEASED if unreleased else version
    if wanted not in sections:
        raise Failure(f"CHANGELOG.md has no section [{wanted}]")
    date, text = sections[wanted]
    parts = parts_of(text)
    if not any(parts.values()):
        raise Failure(f"CHANGELOG.md says nothing under [{wanted}]")
    if not unreleased:
        if date is None:
            raise Failure(f"CHANGELOG.md: give [{version}] its date: ## [{version}] - YYYY-MM-DD")
        if any(parts_of(sections.get(UNRELEASED, ("", ""))[1]).values()):
            raise Failure(
                f"CHANGELOG.md has changes under [{UNRELEASED}]: move them to [{version}], or raise the version"
            )
    order = sorted(parts, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    blocks = [f"{f'## {name}' if name else ''}\n\n{parts[name]}".strip() for name in order if parts[name]]
    title = f"# CNS and CQS {version}" + (", not released" if unreleased else f", {date}")
    return "\n\n".join([title, *blocks]) + "\n"


def parts_of(section: str) -> dict[str, str]:
    """The text under each heading; the one before the first heading has the name ''."""
    before, *pieces = _PART.split(section)
    return {"": before.strip(), **{name: text.strip() for name, text in zip(pieces[::2], pieces[1::2], strict=True)}}
