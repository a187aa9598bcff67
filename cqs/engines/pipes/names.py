"""The text forms of pipes and of receipt handles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from cns_common.ids import hex_id

GENERATION_DIGITS = 6
NODE_DIGITS = 8
_START_DIGITS = 12
_LOW_DIGITS, _HIGH_DIGITS = 3, 7
_LEASE_DIGITS, _PLACE_DIGITS = 15, 8

_HANDLE = re.compile(rb"([0-9a-f]{15})\.([0-9a-f]{38})([0-9a-f]{8})\Z")


class PipeLocation(NamedTuple):
    """A message: its pipe, and its place in it."""

    pipe: str
    place: int


class PipeDelivery(NamedTuple):
    """One delivery of one message."""

    location: PipeLocation
    lease: int


def pipe_name(generation: int, start_ms: int, node: str, number: int) -> str:
    """The queue's generation and a UUID of version 7: names sort by time within a generation. `number` distinguishes
    the pipes that a process opens in one ms."""
    low, high = number % 16**_LOW_DIGITS, number // 16**_LOW_DIGITS % 16**_HIGH_DIGITS
    return f"{generation_prefix(generation)}{start_ms:0{_START_DIGITS}x}7{low:03x}8{node}{high:0{_HIGH_DIGITS}x}"


def generation_prefix(generation: int) -> str:
    """Sorts before every pipe of the generation and after those of all earlier ones."""
    return f"{generation:0{GENERATION_DIGITS}x}"


def first_name(generation: int, start_ms: int) -> str:
    """Sorts before every pipe of the generation that began then or later."""
    return f"{generation_prefix(generation)}{max(start_ms, 0):0{_START_DIGITS}x}"


def generation_of(pipe: str) -> int:
    return int(pipe[:GENERATION_DIGITS], 16)


def start_of(pipe: str) -> int:
    return int(pipe[GENERATION_DIGITS : GENERATION_DIGITS + _START_DIGITS], 16)


def new_lease() -> int:
    """The number of a delivery: random, and never 0, which is that of a message not delivered yet."""
    return int(hex_id()[:_LEASE_DIGITS], 16) or 1


def make_handle(delivery: PipeDelivery) -> bytes:
    (pipe, place), lease = delivery
    return f"{lease:0{_LEASE_DIGITS}x}.{pipe}{place:0{_PLACE_DIGITS}x}".encode()


def parse_handle(handle: bytes) -> PipeDelivery | None:
    """None if it is not a handle of this engine."""
    found = _HANDLE.match(handle)
    if found is None:
        return None
    lease, pipe, place = (part.decode() for part in found.groups())
    return PipeDelivery(PipeLocation(pipe, int(place, 16)), int(lease, 16))


def generations_of(handles: Iterable[bytes]) -> list[int]:
    """The generations of the messages of these handles."""
    parsed = [parse_handle(handle) for handle in handles]
    return [generation_of(one.location.pipe) for one in parsed if one is not None]
