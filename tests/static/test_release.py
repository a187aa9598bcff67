"""What a release is made of: its sources, its notes; `make audit`, which is never green without an answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy import audit
from deploy.release import notes
from deploy.release.build import LOCKS, SOURCES
from deploy.servers.failure import Failure
from tests.wheel import FOLDERS

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## [Unreleased]

## [2.0.0] - 2026-11-29
A word before.

### Added
- New.

### Upgrade
- First `cns schema apply`.

### Breaking
- Gone.

## [1.0.0]

### Added
- All.
"""


def test_the_sources_have_every_package() -> None:
    assert set(FOLDERS) <= set(SOURCES)
    assert all((ROOT / source).exists() for source in SOURCES)
    assert all((ROOT / "requirements" / f"{lock}.lock").exists() for lock in LOCKS)


def test_notes_begin_with_what_breaks() -> None:
    text = notes.cut(CHANGELOG, "2.0.0")
    assert text.startswith("# CNS and CQS 2.0.0, 2026-11-29\n")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Breaking", "## Upgrade", "## Added"]
    assert "- All." not in text and "A word before." in text


@pytest.mark.parametrize(
    ("changelog", "version", "said"),
    [
        (CHANGELOG, "3.0.0", "no section [3.0.0]"),
        (CHANGELOG, "1.0.0", "give [1.0.0] its date"),
        (CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n### Fixed\n- Late.\n"), "2.0.0", "under [Unreleased]"),
        ("## [2.0.0] - 2026-11-29\n### Added\n", "2.0.0", "says nothing"),
    ],
)
def test_notes_that_cannot_be_cut(changelog: str, version: str, said: str) -> None:
    with pytest.raises(Failure) as raised:
        notes.cut(changelog, version)
    assert said in str(raised.value)


def test_the_changelog_of_this_tree_can_be_cut() -> None:
    text = notes.cut((ROOT / "CHANGELOG.md").read_text(), "0", unreleased=True)
    assert text.index("\n## Breaking\n") < text.index("\n## Added\n")


FAKE = """#!{python}
import json, sys
file = open(sys.argv[sys.argv.index("--requirement") + 1]).read()
kind = "control" if file.startswith({known!r}) else "ours"
answer = {answers!r}[kind]
if answer is None:
    sys.exit("no route to the service")
print(json.dumps({{"dependencies": [{{"name": "p", "version": "1", **answer}}]}}))
"""
VULNERABLE = {"vulns": [{"id": "CVE-1"}]}
CLEAN: dict[str, object] = {"vulns": []}


@pytest.mark.parametrize(
    ("control", "ours", "code", "said"),
    [
        (VULNERABLE, CLEAN, 0, "core.lock: 0 known vulnerabilities"),
        (VULNERABLE, VULNERABLE, audit.EXIT_FOUND, "p 1: CVE-1"),
        (VULNERABLE, None, audit.EXIT_NOT_AUDITED, "core.lock: NOT AUDITED: no route"),
        (VULNERABLE, {"skip_reason": "not found"}, audit.EXIT_NOT_AUDITED, "core.lock: NOT AUDITED: p: not found"),
        (CLEAN, CLEAN, audit.EXIT_NOT_AUDITED, "it knows no vulnerability"),
        (None, CLEAN, audit.EXIT_NOT_AUDITED, "NOT AUDITED: no service"),
    ],
)
def test_an_audit_is_green_only_with_an_answer(
    control: object, ours: object, code: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a program that answers as pip-audit does: its services cannot be reached from everywhere."""
    program = tmp_path / "pip-audit"
    answers = {"control": control, "ours": ours}
    program.write_text(FAKE.format(python=sys.executable, known=audit.KNOWN, answers=answers))
    program.chmod(0o755)
    assert audit.main(str(program)) == code
    output = capfd.readouterr()
    assert said in output.out + output.err
