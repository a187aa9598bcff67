"""A FIFO queue's log: commands of all callers of this process appended together, those of other processes followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import structlog

from common.cassandra import Cassandra
from common.conditional import decide
from common.errors import CnsError, StoreUnavailable
from common.ids import hex_id
from cqs.engines.cqs.fifo import schema
from cqs.engines.cqs.fifo.commands import Answer, Command
from cqs.engines.cqs.fifo.images import Images
from cqs.engines.cqs.fifo.state import State

RACES_MAX = 50
"""How often others may be first before an append is given up."""
LOADS_MAX = 5

log = structlog.get_logger(__name__)


class _Slot(msgspec.Struct, frozen=True, array_like=True):
    """`writer` is drawn anew for each attempt, so that a slot says whose it is."""

    writer: str
    commands: list[Command]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Slot).decode


OnChange: TypeAlias = Callable[["Log", Sequence[Command], bool], None]


class Log:
    """One queue's, in one process. `on_change` is told what has changed its state, and whether it was appended here."""

    def __init__(self, cassandra: Cassandra, images: Images, queue: str, on_change: OnChange) -> None:
        self.queue = queue
        self.state = State()
        self._cassandra = cassandra
        self._images = images
        self._on_change = on_change
        self._at = -1  # the slot to be written next; below 0, nothing is known yet
        self._bytes = 0  # of commands since the last image
        self._image_bytes = 0
        self._image_slot = 0
        self._lock = asyncio.Lock()
        self._waiting: list[tuple[Command, asyncio.Future[Any]]] = []
        self._appending: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        return not self._waiting and self._appending is None and self._writing is None

    async def follow(self) -> State:
        """The state, with all that was acknowledged before now."""
        async with self._lock:
            await self._follow()
        return self.state

    async def append(self, command: Command) -> Any:
        """What the command answers, once it is durable."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._appending is None:
            self._appending = asyncio.create_task(self._append_all())
        return await answer

    async def close(self) -> None:
        """End what is under way."""
        await asyncio.gather(*[task for task in (self._appending, self._writing) if task is not None])

    async def clear(self) -> int:
        return await self._images.clear(self.queue)

    async def clear_all(self) -> None:
        await self._images.clear_all(self.queue, max(self._at, 0))

    # -- appending ----------------------------------------------------------------------------------------------------

    async def _append_all(self) -> None:
        try:
            while self._waiting:
                some = self._waiting[: schema.COMMANDS_MAX]
                del self._waiting[: len(some)]
                await self._append_some(some)
        finally:
            self._appending = None

    async def _append_some(self, some: list[tuple[Command, asyncio.Future[Any]]]) -> None:
        try:
            async with self._lock:
                answers = await self._append([command for command, _ in some])
        except CnsError as error:
            for _, waiter in some:
                if not waiter.done():
                    waiter.set_exception(error)
        except BaseException:
            for _, waiter in some:
                waiter.cancel()
            raise
        else:
            for (_, waiter), answer in zip(some, answers, strict=True):
                if not waiter.done():
                    waiter.set_result(answer)

    async def _append(self, commands: list[Command]) -> list[Answer]:
        if self._at < 0:
            await self._follow()
        for _ in range(RACES_MAX):
            if self.state.dropped:
                return [self.state.apply(command) for command in commands]  # for ever the same: nobody need know
            slot = _encode(_Slot(hex_id(), commands))
            if await self._is_first(slot):
                answers = [self.state.apply(command) for command in commands]
                self._at += 1
                self._appended(len(slot))
                self._on_change(self, commands, True)
                return answers
            at = self._at
            await self._follow()
            if self._at == at:
                await self._load()  # the segment was sealed: this process was away for long
        raise StoreUnavailable(f"others append to {self.queue} all the time")

    async def _is_first(self, slot: bytes) -> bool:
        place = (self.queue, *divmod(self._at, schema.SEGMENT_SLOTS))

        async def attempt() -> bool:
            return await self._cassandra.applied(schema.PROPOSE, slot, *place)

        async def ours() -> bool:
            rows = await self._cassandra.run(schema.SLOT, *place)
            return bool(rows) and rows[0][0] == slot

        return await decide(attempt, ours)

    def _appended(self, size: int) -> None:
        self._bytes += size
        due = self._bytes >= schema.IMAGE_EVERY_BYTES + self._image_bytes
        if (due or self._at - self._image_slot >= schema.IMAGE_EVERY_SLOTS) and self._writing is None:
            image = self.state.image()
            self._bytes, self._image_bytes, self._image_slot = 0, len(image), self._at
            self._writing = asyncio.create_task(self._write(self._at, image))

    async def _write(self, slot: int, image: bytes) -> None:
        try:
            await self._images.write(self.queue, slot, image)
        except CnsError as error:
            log.warning("fifo.image_not_written", queue=self.queue, error=str(error))  # a later one will be
        finally:
            self._writing = None

    # -- following ----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        if self._at < 0:
            await self._load()
        while not self.state.dropped:
            segment, slot = divmod(self._at, schema.SEGMENT_SLOTS)
            rows = await self._cassandra.run(schema.SLOTS, self.queue, segment, slot)
            news: list[Command] = []
            for number, commands in rows:
                if number != self._at % schema.SEGMENT_SLOTS or commands is None:
                    break  # never seen: slots are written in their order
                news += self._apply(commands)
            if news:
                self._on_change(self, news, False)
            if self._at // schema.SEGMENT_SLOTS == segment:
                return

    def _apply(self, slot: bytes) -> list[Command]:
        commands = _decode(slot).commands
        for command in commands:
            self.state.apply(command)
        self._at += 1
        self._bytes += len(slot)
        return commands

    async def _load(self) -> None:
        for _ in range(LOADS_MAX):
            state, at, size = await self._images.read(self.queue)
            if at > self._at:
                self.state, self._at, self._image_bytes = state, at, size
                self._image_slot, self._bytes = at, 0
                return
        raise StoreUnavailable(f"the log of {self.queue} cannot be read")
