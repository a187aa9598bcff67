"""A TCP proxy between one process and a server, which a test cuts, holds up and points at another server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self

from lab.harness.ports import free_port
from lab.harness.waiting import PATIENCE_S

HOST = "127.0.0.1"
CHUNK = 65_536


class TcpProxy:
    """Runs in a thread of its own. `with TcpProxy(port) as proxy:`"""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self._target_port = target_port
        self._is_cut = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def redis_url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def cut(self) -> None:
        """End all connections; new ones are closed at once."""
        self._is_cut = True
        self._do(self._drop())

    def heal(self) -> None:
        self._is_cut = False

    def hold(self) -> None:
        """Pass nothing on, in connections that stay open, as if the server hung."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def release(self) -> None:
        """Pass on what was held, too."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def point_at(self, target_port: int) -> None:
        """Connect to another server from now on; existing connections end."""
        self._target_port = target_port
        self._do(self._drop())

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        self._is_cut = True
        await self._drop()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        both = [writer]
        try:
            if not self._is_cut:
                answers, target = await asyncio.open_connection(HOST, self._target_port)
                self._writers.add(target)
                both.append(target)
                await asyncio.gather(self._copy(reader, target), self._copy(answers, writer))
        except OSError:
            pass  # the target does not answer: the connection ends, too
        finally:
            for one in both:
                self._writers.discard(one)
                one.transport.abort()
                with suppress(OSError):
                    await one.wait_closed()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Until either side ends; then both end."""
        with suppress(OSError):
            while chunk := await source.read(CHUNK):
                await self._flowing.wait()
                sink.write(chunk)
                await sink.drain()
        sink.transport.abort()
