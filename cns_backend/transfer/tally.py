"""What a copy and its source must agree in: how many values they have, and the sum of their hashes in any order."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

BITS = 128

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Tally(msgspec.Struct):
    count: int = 0
    digest: int = 0

    def add(self, value: object) -> None:
        hashed = blake2b(_encode(value), digest_size=BITS // 8).digest()
        self.count += 1
        self.digest = (self.digest + int.from_bytes(hashed)) % 2**BITS
