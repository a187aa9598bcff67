"""The writers' files are complete when they close, however slow the machine is."""

from __future__ import annotations

import pytest

from cns_common import file_writer
from cns_common.events import audit_log
from lab.harness.waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def writers_close_in_their_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (file_writer, audit_log):
        monkeypatch.setattr(module, "CLOSE_S", PATIENCE_S)
