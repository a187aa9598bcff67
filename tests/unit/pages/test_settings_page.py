"""docs/operations names every setting: in a table, or as an option of `cns up`; and none that is not there."""

from __future__ import annotations

import inspect
import re

from cns_cli.service.up import up
from cns_common.configuration.settings import Settings
from tests.operator_docs import TEXT

ROWS = re.findall(r"^\| (`CNS_[^|]*)\|", TEXT, re.MULTILINE)
NAMED = {name.lower() for row in ROWS for name in re.findall(r"`CNS_(\w+)`", row)}
SETTINGS = set(Settings.model_fields)
OTHERS = "servers_"
"""The prefix of the settings of `deploy/servers`."""


def test_every_setting_is_named() -> None:
    assert SETTINGS - NAMED - set(inspect.signature(up).parameters) == set()


def test_what_is_named_is_a_setting() -> None:
    assert {name for name in NAMED if not name.startswith(OTHERS)} - SETTINGS == set()
