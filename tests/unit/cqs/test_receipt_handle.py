"""Receipt handles: valid ones can be read, others are refused by cause, and clients cannot forge any."""

from __future__ import annotations

import base64
import binascii
import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cns_common.errors import RequestError
from cns_common.sealing import MASTER_KEY_BYTES, Seal
from cqs.messages.receipt_handle import KEY_BYTES, MAC_BYTES, ReceiptHandles
from cqs.stores.receipt_key import DerivedReceiptKeyStore

KEY = bytes(range(KEY_BYTES))
QUEUE = "00112233445566778899aabbccddeeff"
OURS = ReceiptHandles(KEY, QUEUE)
THEIRS = ReceiptHandles(KEY, "ff112233445566778899aabbccddeeff")
ENGINES = b"0123456789abcdef"


def refusal(text: str, receipts: ReceiptHandles = OURS) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        receipts.read(text)
    return caught.value.code, caught.value.message


def not_a_handle(text: str) -> tuple[str, str]:
    return "ReceiptHandleIsInvalid", f'The input receipt handle "{text}" is not a valid receipt handle.'


@given(at_ms=st.integers(0, 2**47), handle=st.binary(min_size=1, max_size=700))
def test_round_trip(at_ms: int, handle: bytes) -> None:
    text = OURS.make(at_ms, handle)
    assert len(text) <= 1024
    assert OURS.read(text) == (at_ms, handle, "", "")


GROUPS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=128)


@given(at_ms=st.integers(0, 2**47), handle=st.binary(min_size=1, max_size=500), message=st.uuids(), group=GROUPS)
def test_round_trip_of_an_audited_queue(at_ms: int, handle: bytes, message: UUID, group: str) -> None:
    text = OURS.make_named(at_ms, handle, str(message), group)
    assert len(text) <= 1024
    assert OURS.read(text) == (at_ms, handle, str(message), group)


@pytest.mark.parametrize("text", [THEIRS.make(1, b"handle"), THEIRS.make_named(1, b"handle", str(UUID(int=1)), "g")])
def test_other_queue(text: str) -> None:
    expected = ("ReceiptHandleIsInvalid", f'The receipt handle "{text}" is not valid for this queue.')
    assert refusal(text) == expected


def changed(at: int) -> str:
    sealed = bytearray(base64.b64decode(OURS.make(1, ENGINES)))
    sealed[at] ^= 1
    return base64.b64encode(sealed).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "not base64!",
        "\u00e9\ud800",
        base64.b64encode(b"").decode(),
        base64.b64encode(bytes(range(40))).decode(),
        OURS.make(1, b""),
        OURS.make(1, ENGINES) + "=",
        " " + OURS.make(1, ENGINES),
        "A" * 1028,
        *(changed(at) for at in range(len(base64.b64decode(OURS.make(1, ENGINES))))),
    ],
)
def test_never_issued(text: str) -> None:
    assert refusal(text) == not_a_handle(text)


def test_a_handle_made_by_who_knows_another() -> None:
    """A forged handle has everything but the key: queue, time, the engine's handle, and the format."""
    known = base64.b64decode(OURS.make(1, ENGINES))
    wanted = known[: -MAC_BYTES - 1] + b"g"
    for check in (
        known[-MAC_BYTES:],
        zlib.crc32(wanted).to_bytes(4, "big"),
        zlib.crc32(wanted).to_bytes(MAC_BYTES, "big"),
        b"",
        bytes(MAC_BYTES),
    ):
        forged = binascii.b2a_base64(wanted + check, newline=False).decode()
        assert refusal(forged) == not_a_handle(forged)


def test_a_handle_of_another_store() -> None:
    text = ReceiptHandles(bytes(KEY_BYTES), QUEUE).make(1, ENGINES)
    assert refusal(text) == not_a_handle(text)


def test_a_handle_of_before_there_was_a_key() -> None:
    """Version 1 had a checksum: its handles are refused."""
    content = b"\x01" + bytes.fromhex(QUEUE)[:6] + (1).to_bytes(6, "big") + ENGINES
    text = base64.b64encode(content + zlib.crc32(content).to_bytes(4, "big")).decode()
    assert refusal(text) == not_a_handle(text)


@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    with pytest.raises(RequestError):
        OURS.read(text)


async def test_the_key_is_the_stores() -> None:
    """The same in every process with the same master key, another with another master key, and not the master key
    itself."""
    master, other = bytes(MASTER_KEY_BYTES), b"\x01" * MASTER_KEY_BYTES
    key = await DerivedReceiptKeyStore(Seal(master)).receipt_key()
    assert key == await DerivedReceiptKeyStore(Seal(master)).receipt_key()
    assert len(key) == KEY_BYTES
    assert key not in (master, await DerivedReceiptKeyStore(Seal(other)).receipt_key(), Seal(master).derived_key(b"x"))
