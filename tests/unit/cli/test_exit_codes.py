"""docs/operations/reference.md documents every exit code that the program has."""

from __future__ import annotations

import re
from pathlib import Path

from tests.operator_docs import section

ROOT = Path(__file__).parents[3]
PACKAGES = ("cns_common", "cns_backend", "cns_server", "cns_receiver", "cns_pipeline", "cns_cli", "workers")


def test_each_exit_code_is_documented() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)}
    used = {
        int(code)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for code in re.findall(r"^EXIT_\w+ = (\d+)$", path.read_text(), re.MULTILINE)
    }
    assert len(used) > 8
    assert used <= documented
