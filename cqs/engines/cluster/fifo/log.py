"""A FIFO queue's log: commands of all callers of this process appended together, those of other processes followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import structlog

from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra
from cns_common.errors import CnsError, OutcomeUnknown, StoreUnavailable
from cns_common.ids import hex_id
from cqs.engines.cluster.fifo import schema
from cqs.engines.cluster.fifo.commands import Answer, Command, Drop
from cqs.engines.cluster.fifo.snapshots import Images
from cqs.engines.cluster.fifo.state import FORM, State, check_form

RACES_MAX = 50
"""How often others may be first before an append is given up."""
LOADS_MAX = 5
CLEARED_AT_ONCE = 100
"""Segments and images that are cleared after one was written."""

log = structlog.get_logger(__name__)


class _Slot(msgspec.Struct, frozen=True, array_like=True):
    """`writer` is drawn anew for each attempt, so that a slot says whose it is."""

    form: int
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
        self._look: asyncio.Task[None] | None = None  # that has not begun
        self._looks: set[asyncio.Task[None]] = set()
        self._appending: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        return not (self._waiting or self._looks or self._appending or self._writing)

    async def follow(self) -> State:
        """The state, with all that was acknowledged before now. Who asks before a look begins shares it."""
        if self._look is None:
            self._look = asyncio.create_task(self._follow_once())
            self._looks.add(self._look)
            self._look.add_done_callback(self._looked)
        await asyncio.shield(self._look)
        return self.state

    async def _follow_once(self) -> None:
        async with self._lock:
            self._look = None
            await self._follow()

    def _looked(self, look: asyncio.Task[None]) -> None:
        self._looks.discard(look)
        if not look.cancelled():
            look.exception()  # perhaps nobody waits for it any more

    async def append(self, command: Command) -> Any:
        """What the command answers, once it is durable."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._appending is None:
            self._appending = asyncio.create_task(self._append_all())
        return await answer

    async def drop(self) -> None:
        """Append the last command, if nobody has, and leave the rest to `clear`."""
        await self.append(Drop(self.state.now_ms))
        if self._at != schema.DROPPED_SLOT:
            await self._images.drop(self.queue, self._at)

    async def close(self) -> None:
        """End what is under way."""
        while tasks := [*self._looks, *[task for task in (self._appending, self._writing) if task is not None]]:
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- appending ----------------------------------------------------------------------------------------------------

    async def _append_all(self) -> None:
        try:
            while self._waiting:
                some = [one for one in self._waiting[: schema.COMMANDS_MAX] if not one[1].done()]
                del self._waiting[: schema.COMMANDS_MAX]
                if some:
                    await self._append_some(some)
        finally:
            self._appending = None

    async def _append_some(self, some: list[tuple[Command, asyncio.Future[Any]]]) -> None:
        try:
            async with self._lock:
                answers = await self._append([command for command, _ in some])
        except Exception as error:  # noqa: BLE001  # every caller is told; the log goes on
            if not isinstance(error, CnsError):
                self._forget()  # the state is in doubt
            for _, waiter in some:
                if not waiter.done():
                    waiter.set_exception(error)
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
            slot = _encode(_Slot(FORM, hex_id(), commands))
            if await self._is_first(slot):
                answers = [self.state.apply(command) for command in commands]
                self._at += 1
                self._bytes += len(slot)
                self._write_down_if_due()
                self._on_change(self, commands, True)
                return answers
            await self._follow()
        raise StoreUnavailable(f"others append to {self.queue} all the time")

    async def _is_first(self, slot: bytes) -> bool:
        place = (self.queue, *divmod(self._at, schema.SEGMENT_SLOTS))

        async def attempt() -> bool:
            return await self._cassandra.applied(schema.PROPOSE, slot, *place)

        async def ours() -> bool:
            rows = await self._cassandra.run(schema.SLOT, *place)
            if not rows:  # whoever's it was, the segment has been cleared since
                raise OutcomeUnknown(f"an append to {self.queue} took too long")
            return bool(rows[0][0] == slot)

        return await resolve_lost_write(attempt, ours)

    # -- written down -------------------------------------------------------------------------------------------------

    def _write_down_if_due(self) -> None:
        slots = self._at - self._image_slot
        due = self._bytes >= schema.IMAGE_EVERY_BYTES + self._image_bytes or (
            slots >= schema.IMAGE_EVERY_SLOTS and self._bytes * 8 >= self._image_bytes
        )
        if due and self._writing is None:
            self._writing = asyncio.create_task(self._write_down())

    async def _write_down(self) -> None:
        """Unless another process has lately; whoever does clears what has become needless before."""
        try:
            newest = await self._images.newest_slot(self.queue)
            if newest > self._image_slot:
                self._image_slot, self._bytes = newest, 0
                return
            async with self._lock:
                if self._at < 0 or self.state.dropped:
                    return
                slot, image = self._at, self.state.image()
                self._bytes, self._image_bytes, self._image_slot = 0, len(image), slot
            await self._images.write(self.queue, slot, image)
            await self._images.clear(self.queue, CLEARED_AT_ONCE)
        except CnsError as error:
            log.warning("fifo_queue.snapshot_failed", queue=self.queue, error=str(error))  # a later one will be
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
                if number != self._at % schema.SEGMENT_SLOTS:
                    break  # one that is written beside this question, or the end of a segment that was cleared
                news += self._apply(commands)
            if news:
                self._on_change(self, news, False)
            if self._at // schema.SEGMENT_SLOTS > segment:
                continue
            if not rows or rows[-1][0] != schema.SEALED_SLOT:
                return
            await self._load()

    def _apply(self, slot: bytes) -> list[Command]:
        read = _decode(slot)
        check_form(read.form)
        for command in read.commands:
            self.state.apply(command)
        self._at += 1
        self._bytes += len(slot)
        return read.commands

    async def _load(self) -> None:
        for _ in range(LOADS_MAX):
            state, at, size = await self._images.read(self.queue)
            if at > self._at:
                self.state, self._at, self._image_bytes = state, at, size
                self._image_slot, self._bytes = at, 0
                return
        raise StoreUnavailable(f"the log of {self.queue} cannot be read")

    def _forget(self) -> None:
        self.state, self._at = State(), -1
