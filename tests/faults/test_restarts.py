"""A few kills of each form under boto3's defaults, and proof that a failed call is found: `make faults` kills a hundred
processes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.faults.restarts import rounds
from lab.faults.restarts.forms import FORMS
from lab.faults.restarts.rounds import restart_round
from lab.faults.restarts.sdk import ATTEMPTS_MAX, Calls, Sdk
from lab.harness.signing import Credentials

KILLS = 4
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


@pytest.mark.parametrize("kind", FORMS)
async def test_an_sdk_notices_no_restart(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "STOP_EVERY", 2)
    monkeypatch.setattr(rounds, "RESTART_EVERY", 3)
    result = await restart_round(kind, 1, KILLS, tmp_path)
    assert result.faults == []
    assert (sum(result.kills.values()), result.stops, result.restarts) == (KILLS, 2, 1)
    assert result.repeated > 0
    assert result.messages > 20
    assert result.in_order > 2


@pytest.mark.parametrize(("cut", "failed"), [(1, 0), (ATTEMPTS_MAX - 1, 0), (ATTEMPTS_MAX, 1)])
async def test_a_call_is_failed_when_each_attempt_is_cut(cut: int, failed: int) -> None:
    arrived: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(await reader.readuntil(b"{}"))
        if len(arrived) > cut:
            writer.write(ANSWER)
        writer.close()

    calls = Calls(done_last="api killed")
    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        with ThreadPoolExecutor(1) as pool:
            answer = await Sdk(port, Credentials(key_id="key", secret="secret"), calls, pool).call(
                "sqs", "list_queues", {}
            )
    assert (answer.failed, answer.unknown_outcomes, len(calls.failed)) == (bool(failed), cut, failed)
    assert calls.cut == {"api killed: RemoteDisconnected": cut}
    assert calls.repeated == min(cut, ATTEMPTS_MAX - 1)
