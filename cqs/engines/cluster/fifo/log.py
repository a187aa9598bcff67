"""A FIFO queue's log in one process: appends the commands of all callers together and applies those of other
processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import structlog

from cns_common.cassandra.session import Cassandra
from cns_common.errors import CnsError, OutcomeUnknown, StoreUnavailable
from cns_common.ids import hex_id
from cqs.engines.cluster.fifo import schema
from cqs.engines.cluster.fifo.commands import Answer, Command, FifoDrop, PullBack
from cqs.engines.cluster.fifo.encoding import decode_slot, encode_slot, in_turns
from cqs.engines.cluster.fifo.log_time import LogTime
from cqs.engines.cluster.fifo.snapshots import Snapshots
from cqs.engines.cluster.fifo.state import FifoState

RACES_MAX = 50
"""Slots lost to other processes before an append fails."""
LOADS_MAX = 5
UNSEALED_S = 60.0
"""A slot proposed less long ago is in no sealed segment: the seal comes `OBSOLETE_KEEP_MS` after the slot."""
CLEARED_AT_ONCE = 100
"""The most segments and snapshots that are removed after a snapshot was written."""
TURN_BYTES = 64 * 1024
"""The size of the commands that are applied in one turn of the event loop."""

log = structlog.get_logger(__name__)


OnChange: TypeAlias = Callable[["CommandLog", Sequence[Command], bool], None]


class CommandLog:
    """`on_change` gets the applied commands, and whether this process appended them."""

    def __init__(
        self, cassandra: Cassandra, snapshots: Snapshots, time: LogTime, queue_id: str, on_change: OnChange
    ) -> None:
        self.queue_id = queue_id
        self.state = FifoState()
        self._cassandra = cassandra
        self._snapshots = snapshots
        self._time = time
        self._on_change = on_change
        self._next_slot = -1  # the next slot to write; below 0, nothing has been read yet
        self._bytes_since_snapshot = 0  # of commands
        self._snapshot_bytes = 0
        self._snapshot_slot = 0
        self._lock = asyncio.Lock()
        self._waiting: list[tuple[Command, asyncio.Future[Any]]] = []
        self._next_read: asyncio.Task[None] | None = None  # a read that has not begun
        self._reads: set[asyncio.Task[None]] = set()
        self._append_task: asyncio.Task[None] | None = None
        self._snapshot_task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        return not (self._waiting or self._reads or self._append_task or self._snapshot_task)

    @property
    def is_ahead(self) -> bool:
        """Whether the next append sets back the queue's time."""
        return self._time.is_ahead(self.state.now_ms)

    async def catch_up(self) -> FifoState:
        """The state with all commands that were acknowledged before this call. Callers share a read that has not
        begun."""
        if self._next_read is None:
            self._next_read = asyncio.create_task(self._catch_up_once())
            self._reads.add(self._next_read)
            self._next_read.add_done_callback(self._read_ended)
        await asyncio.shield(self._next_read)
        return self.state

    async def _catch_up_once(self) -> None:
        async with self._lock:
            self._next_read = None
            await self._catch_up()

    def _read_ended(self, read: asyncio.Task[None]) -> None:
        self._reads.discard(read)
        if not read.cancelled():
            read.exception()  # its caller may not wait for it any more

    async def append(self, command: Command) -> Any:
        """Append the command. Returns its answer once it is durable. Cancelling the call withdraws the command, unless
        it was proposed."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._append_task is None:
            self._append_task = asyncio.create_task(self._append_all())
        try:
            return await answer
        finally:
            answer.cancel()

    async def drop(self) -> None:
        """Append Drop unless another process has, and leave the rest to `Snapshots.clear`."""
        await self.append(FifoDrop(self.state.now_ms))
        if self._next_slot != schema.DROPPED_SLOT:
            await self._snapshots.drop(self.queue_id, self._next_slot)

    async def go_on_from(self, snapshot: bytes) -> None:
        """Replace the state. Only while no other process uses the queue, and not before the log's first slot."""
        async with self._lock:
            await self._catch_up()
            await self._snapshots.write(self.queue_id, self._next_slot, snapshot)
            self._reset()

    async def unload(self) -> None:
        """Free the memory of the state: the next call reads it again."""
        async with self._lock:
            self._reset()

    async def close(self) -> None:
        """Wait for running appends, reads and snapshots."""
        while tasks := [*self._reads, *[task for task in (self._append_task, self._snapshot_task) if task is not None]]:
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
            self._append_task = None

    async def _append_some(self, some: list[tuple[Command, asyncio.Future[Any]]]) -> None:
        try:
            async with self._lock:
                answers = await self._append([command for command, _ in some])
        except Exception as error:  # noqa: BLE001  # each caller gets the error, and the log goes on
            if not isinstance(error, CnsError):
                self._reset()  # the state is unknown
            for _, waiter in some:
                if not waiter.done():
                    waiter.set_exception(error)
        else:
            for (_, waiter), answer in zip(some, answers, strict=True):
                if not waiter.done():
                    waiter.set_result(answer)

    async def _append(self, commands: list[Command]) -> list[Answer]:
        if self._next_slot < 0:
            await self._catch_up()
        for _ in range(RACES_MAX):
            if self.state.dropped:
                return [self.state.apply(command) for command in commands]  # nothing to store: it stays dropped
            before: list[Command] = [self._pull_back()] if self.is_ahead else []
            slot = encode_slot(hex_id(), before + commands)
            if await self._wins_slot(slot):
                answers = [self.state.apply(command) for command in before + commands]
                self._next_slot += 1
                self._bytes_since_snapshot += len(slot)
                self._snapshot_if_due()
                self._on_change(self, commands, True)
                return answers[len(before) :]
            await self._catch_up()
        raise StoreUnavailable(f"others append to {self.queue_id} all the time")

    def _pull_back(self) -> PullBack:
        now_ms = self._time.now_ms()
        log.warning("fifo_queue.time_corrected", queue=self.queue_id, by_s=(self.state.now_ms - now_ms) // 1000)
        return PullBack(now_ms)

    async def _wins_slot(self, slot: bytes) -> bool:
        """Propose this content for the next slot. Returns whether the slot has it.

        The statement may be sent to several nodes and be repeated, so its answer may be that of a later try, which
        found what an earlier one wrote. If the segment was removed meanwhile, it is unknown which process won."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        segment, number = divmod(self._next_slot, schema.SEGMENT_SLOTS)
        is_applied, *found = (await self._cassandra.run(schema.PROPOSE, slot, self.queue_id, segment, number))[0]
        if is_applied or slot in found:
            return True
        if not any(isinstance(one, bytes) for one in found) and loop.time() - began_s >= UNSEALED_S:
            raise OutcomeUnknown(f"an append to {self.queue_id} took too long")
        return False

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def _snapshot_if_due(self) -> None:
        slots = self._next_slot - self._snapshot_slot
        due = self._bytes_since_snapshot >= schema.SNAPSHOT_EVERY_BYTES + self._snapshot_bytes or (
            slots >= schema.SNAPSHOT_EVERY_SLOTS and self._bytes_since_snapshot * 8 >= self._snapshot_bytes
        )
        if due and self._snapshot_task is None:
            self._snapshot_task = asyncio.create_task(self._write_snapshot())

    async def _write_snapshot(self) -> None:
        """Write a snapshot unless another process has. Then remove what it makes obsolete."""
        try:
            newest = await self._snapshots.newest_slot(self.queue_id)
            if newest > self._snapshot_slot:
                self._snapshot_slot, self._bytes_since_snapshot = newest, 0
                return
            async with self._lock:
                if self._next_slot < 0 or self.state.dropped:
                    return
                slot, snapshot = self._next_slot, await in_turns(self.state.snapshot_steps())
                self._bytes_since_snapshot, self._snapshot_bytes, self._snapshot_slot = 0, len(snapshot), slot
            await self._snapshots.write(self.queue_id, slot, snapshot)
            await self._snapshots.clear(self.queue_id, CLEARED_AT_ONCE)
        except CnsError as error:  # a later snapshot is written instead
            log.warning("fifo_queue.snapshot_failed", queue=self.queue_id, error=str(error))
        finally:
            self._snapshot_task = None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        if self._next_slot < 0:
            await self._load()
        while not self.state.dropped:
            segment, slot = divmod(self._next_slot, schema.SEGMENT_SLOTS)
            rows = await self._cassandra.run(schema.SLOTS, self.queue_id, segment, slot)
            news: list[Command] = []
            applied = 0
            for number, commands in rows:
                if number != self._next_slot % schema.SEGMENT_SLOTS:
                    break  # a slot written during this read, or the end of a removed segment
                news += self._apply(commands)
                applied += len(commands)
                if applied >= TURN_BYTES:
                    applied = 0
                    await asyncio.sleep(0)
            if news:
                self._on_change(self, news, False)
            if self._next_slot // schema.SEGMENT_SLOTS > segment:
                continue
            if not rows or rows[-1][0] != schema.SEALED_SLOT:
                return
            await self._load()

    def _apply(self, slot: bytes) -> list[Command]:
        commands = decode_slot(slot)
        for command in commands:
            self.state.apply(command)
        self._next_slot += 1
        self._bytes_since_snapshot += len(slot)
        return commands

    async def _load(self) -> None:
        for _ in range(LOADS_MAX):
            state, at, size = await self._snapshots.read(self.queue_id)
            if at > self._next_slot:
                self.state, self._next_slot, self._snapshot_bytes = state, at, size
                self._snapshot_slot, self._bytes_since_snapshot = at, 0
                return
        raise StoreUnavailable(f"the log of {self.queue_id} cannot be read")

    def _reset(self) -> None:
        self.state, self._next_slot = FifoState(), -1
