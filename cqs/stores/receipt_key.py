"""The key by which receipt handles are made: one for each store, so that all its processes issue and accept alike."""

from __future__ import annotations

from cns_common.sealing import Seal

PURPOSE = b"receipt handles"


class DerivedReceiptKeyStore:
    """Derives the key from the master key, which every process that opens the store has: nothing more is stored, and a
    receipt handle stays good as long as the master key is kept."""

    def __init__(self, seal: Seal) -> None:
        self._key = seal.derived_key(PURPOSE)

    async def receipt_key(self) -> bytes:
        return self._key
