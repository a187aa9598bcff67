"""The facts that Subscribe learns of an endpoint by reaching out: refused, no such name, or nothing that it knows."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from cns.endpoints import reachability
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.reachability import is_unreachable
from lab.harness.ports import free_port

LOOPBACK = AddressGuard(["127.0.0.0/8", "::1/128"])


async def test_a_listener_and_a_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not await is_unreachable(LOOPBACK, f"http://127.0.0.1:{port}/hook")
        assert not await is_unreachable(LOOPBACK, f"HTTPS://localhost:{port}/hook")
        assert not await is_unreachable(AddressGuard([]), f"http://127.0.0.1:{free_port()}/")  # not even tried
    closed = free_port()
    assert await is_unreachable(LOOPBACK, f"http://127.0.0.1:{closed}/")
    assert await is_unreachable(LOOPBACK, f"https://localhost:{closed}/")
    assert await is_unreachable(LOOPBACK, "http://a..b/")  # can be no name


@pytest.mark.parametrize(
    ("fault", "unreachable"),
    [
        (socket.gaierror(socket.EAI_NONAME, "no such name"), True),
        (socket.gaierror(socket.EAI_AGAIN, "the name server does not answer"), False),
        (OSError(errno.ECONNREFUSED, "refused"), True),
        (OSError(errno.EHOSTUNREACH, "no route"), True),
        (OSError("Multiple exceptions"), True),
        (OSError(errno.EMFILE, "this process has no socket"), False),
    ],
)
async def test_faults(monkeypatch: pytest.MonkeyPatch, fault: OSError, unreachable: bool) -> None:
    async def fail(*_: Any) -> socket.socket:
        raise fault

    monkeypatch.setattr(reachability, "connect_to_allowed", fail)
    assert await is_unreachable(LOOPBACK, "http://127.0.0.1/") is unreachable


async def test_silence_is_waited_for_no_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: Any) -> socket.socket:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(reachability, "connect_to_allowed", silent)
    monkeypatch.setattr(reachability, "REACH_TIMEOUT_S", 0.05)
    assert not await is_unreachable(LOOPBACK, "http://127.0.0.1/")
