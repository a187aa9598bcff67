"""`cns receiver` as a process: it reports that it is ready, stops on a signal, and keeps its journal after a kill."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.integration.receiver.receiver_support import Client

READY = re.compile(r"cns receiver: deliveries go to (http://127\.0\.0\.1:\d+)/endpoint/ID")
COMMAND = (sys.executable, "-m", "cns_cli.main", "receiver", "--port")


@asynccontextmanager
async def running(*options: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Client]]:
    process = await asyncio.create_subprocess_exec(*COMMAND, "0", *options, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        ready = READY.match((await process.stdout.readline()).decode())
        assert ready is not None
        async with aiohttp.ClientSession() as session:
            yield process, Client(ready[1], session)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_it_stops_while_a_client_hangs() -> None:
    async with running() as (process, client):
        hanging = asyncio.create_task(client.notify("a?hang=true"))
        await client.show("a", received=1)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        with pytest.raises(aiohttp.ClientConnectionError):
            await hanging


async def test_answered_messages_are_in_the_journal_of_a_killed_receiver(tmp_path: Path) -> None:
    journal = ("--journal", str(tmp_path / "journal"))
    answered: list[str] = []

    async def deliver(client: Client, lane: int) -> None:
        for number in range(1_000_000):
            if await client.notify("a", f"m-{lane}-{number}") == 200:
                answered.append(f"m-{lane}-{number}")

    async with running(*journal) as (process, client):
        lanes = [asyncio.create_task(deliver(client, lane)) for lane in range(8)]
        await client.show("a", received=500)
        process.kill()
        for lane in lanes:
            with pytest.raises((aiohttp.ClientConnectionError, aiohttp.ClientOSError)):
                await lane
    async with running(*journal) as (_, client):
        assert answered
        assert set(answered) <= (await client.ids("a", "?accepted=true")).keys()


@pytest.mark.parametrize("options", [[], ["--journal", "/nowhere/journal"], ["--tls-cert", "/nowhere/cert.pem"]])
async def test_a_failed_start_is_one_line(options: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, str(taken.getsockname()[1]), *options, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
    assert process.returncode == 69
    assert errors.decode().startswith("cns: the receiver cannot start: ")
    assert errors.count(b"\n") == 1
