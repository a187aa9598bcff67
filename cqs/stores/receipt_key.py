"""The store's key of receipt handles."""

from __future__ import annotations

from cns_common.sealing import Seal
from cqs.stores.contract import ReceiptKeyStore

PURPOSE = b"receipt handles"


class DerivedReceiptKeyStore(ReceiptKeyStore):
    """Derives the key from the master key, which every process of the store has. Nothing else is stored: receipt
    handles stay valid as long as the master key is the same."""

    def __init__(self, seal: Seal) -> None:
        self._key = derived_receipt_key(seal)

    async def receipt_key(self) -> bytes:
        return self._key


def derived_receipt_key(seal: Seal) -> bytes:
    return seal.derived_key(PURPOSE)
