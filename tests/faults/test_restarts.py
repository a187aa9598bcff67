"""A few kills of each form under boto3's defaults, and proof that a round can fail: `make faults` makes a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.restarts import rounds
from faults.restarts.clients import SdkClients
from faults.restarts.forms import EMBEDDED, FORMS
from faults.restarts.rounds import restart_round

KILLS = 4


@pytest.mark.parametrize("kind", FORMS)
async def test_an_sdk_notices_no_restart(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "STOP_EVERY", 2)
    monkeypatch.setattr(rounds, "RESTART_EVERY", 3)
    result = await restart_round(kind, 1, KILLS, tmp_path)
    assert result.faults == []
    assert (sum(result.kills.values()), result.stops, result.restarts) == (KILLS, 2, 1)
    assert result.repeated > 0
    assert result.messages > 50
    assert result.in_order > 5


async def test_a_call_that_is_cut_in_each_attempt_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def spare_none(_: SdkClients) -> None:
        return None

    monkeypatch.setattr(SdkClients, "spare_last_attempts", spare_none)
    monkeypatch.setattr(rounds, "PAUSE_S", (0.0, 0.0))
    result = await restart_round(EMBEDDED, 1, 10, tmp_path)
    assert any(fault.startswith("failed call: ") for fault in result.faults)
