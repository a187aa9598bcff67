"""The compose files and the variables of `deploy/compose.env.example`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "deploy" / "compose.env.example").read_text()
FILES = ("docker-compose.yml", "docker-compose.scaled.yml")


@pytest.mark.parametrize("name", FILES)
def test_no_default_is_empty(name: str) -> None:
    """podman-compose of Debian 12 leaves `${NAME:-}` as it is: the setting would have that text as its value."""
    assert re.findall(r"\$\{\w+:?-\}", (ROOT / name).read_text()) == []


@pytest.mark.parametrize("name", FILES)
def test_a_variable_without_a_default_is_set_by_the_example(name: str) -> None:
    """Docker warns of one that is not set."""
    wanted = set(re.findall(r"\$\{(\w+)\}", (ROOT / name).read_text()))
    assert wanted <= set(re.findall(r"^(\w+)=", EXAMPLE, re.MULTILINE))
