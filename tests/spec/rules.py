"""The rules of the SQS and SNS APIs as this project reads them. Tests are marked with their ids."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

_SERVICES = {"sqs": "SQS", "sns": "SNS"}
_BOTH = "both"
TABLES = tuple(sorted(Path(__file__).parent.glob("*.toml")))


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a caller can see. `on` names operations; an empty `on` means all."""

    id: str
    part: str
    says: str
    on: tuple[str, ...] = ()
    untested: str = ""  # the reason why no test shows it
    apart: str = ""  # the stage of its tests, if that runs only where it is named
    differs: str = ""  # the intended difference of this implementation
    service: str = ""  # the service that its table names


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...]


def load_rules() -> dict[str, Rule]:
    """All rules by id, in the order of the tables."""
    rules: dict[str, Rule] = {}
    for table in TABLES:
        for rule in msgspec.convert(tomllib.loads(table.read_text()), _Table).rule:
            if rule.id in rules:
                raise ValueError(f"{table.name}: there are two rules {rule.id}")
            rules[rule.id] = msgspec.structs.replace(rule, service=_SERVICES.get(table.stem.partition("-")[0], _BOTH))
    return rules
