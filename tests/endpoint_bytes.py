"""The memory that a connection to an endpoint holds, and a transport without a socket that feeds it."""

from __future__ import annotations

import asyncio
import gc
import sys


class Transport(asyncio.Transport):
    """Keeps what is written and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.aborted = True


def kept_bytes(*holders: object) -> int:
    """The size of all bytes, lists and tuples that can be reached from `holders` by way of nothing else."""
    seen: set[int] = set()
    todo, total = list(holders), 0
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        todo += [other for other in gc.get_referents(one) if isinstance(other, bytes | bytearray | str | list | tuple)]
    return total
