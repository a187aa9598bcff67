"""The contract of the outbox, for every driver."""

from __future__ import annotations

import pytest

from cns.delivery.outbox import OUTBOX_MS, OutboxItem, item_id
from cns.stores.contract import OutboxStore
from cns_common.durations import HOUR_MS
from tests.integration.sns.stores.cns_stores import ACCOUNT, OTHER, Stores

START_MS = 1_900_000_000_000


@pytest.fixture
def outbox(stores: Stores) -> OutboxStore:
    return stores.outbox


def item(number: int, account: str = ACCOUNT, protocol: str = "sms", at_ms: int = 0) -> OutboxItem:
    at_ms = at_ms or START_MS + number
    return OutboxItem(
        id=item_id(at_ms, str(number), "+1555"),
        at_ms=at_ms,
        account=account,
        region="eu-west-1",
        protocol=protocol,
        destination="+1555",
        message_id=str(number),
        message="text ☎",
        attributes={"a": ("Number", "1")},
    )


async def ids(outbox: OutboxStore, account: str = "", protocol: str = "", before: str = "", n: int = 99) -> list[str]:
    found = await outbox.newest(account, protocol, before, n)
    return [one.message_id for one in found]


async def test_an_item_is_stored_once(outbox: OutboxStore) -> None:
    first = item(1)
    for _ in range(2):
        await outbox.put(first)
    assert await outbox.get(first.id) == first
    assert await outbox.get("absent") is None
    assert await outbox.newest(ACCOUNT, "sms", "", 9) == [first]


async def test_the_newest_items_come_first_across_days(outbox: OutboxStore) -> None:
    for number in (3, 1, 2):
        await outbox.put(item(number, at_ms=START_MS + number * HOUR_MS))
    await outbox.put(item(4, account=OTHER, at_ms=START_MS + 4 * HOUR_MS))
    await outbox.put(item(5, protocol="lambda", at_ms=START_MS + 2 * HOUR_MS + 1))
    assert await ids(outbox) == ["4", "3", "5", "2", "1"]
    assert await ids(outbox, ACCOUNT) == ["3", "5", "2", "1"]
    assert await ids(outbox, ACCOUNT, "sms") == ["3", "2", "1"]
    assert await ids(outbox, protocol="sms") == ["4", "3", "2", "1"]
    assert await ids(outbox, OTHER, "lambda") == []


async def test_pages_go_on_where_the_last_ended(outbox: OutboxStore) -> None:
    for number in range(7):
        await outbox.put(item(number, protocol=("sms", "email")[number % 2], at_ms=START_MS + number * HOUR_MS // 8))
    pages, before = [], ""
    while found := await outbox.newest(ACCOUNT, "", before, 3):
        pages.append([one.message_id for one in found])
        before = found[-1].id
    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]


async def test_items_are_removed(outbox: OutboxStore) -> None:
    items = [item(number) for number in range(3)]
    for one in items:
        await outbox.put(one)
    await outbox.remove([items[0].id, items[2].id, "absent"])
    await outbox.remove([])
    assert await ids(outbox) == ["1"]
    assert await outbox.get(items[0].id) is None


async def test_expired_items_are_swept(swept_stores: Stores) -> None:
    outbox = swept_stores.outbox
    for number in range(3):
        await outbox.put(item(number))
    due_ms = START_MS + OUTBOX_MS
    assert await outbox.sweep(due_ms - 1, 9) == 0
    assert await outbox.sweep(due_ms + 1, 1) == 1
    assert await outbox.sweep(due_ms + 1, 9) == 1
    assert await ids(outbox) == ["2"]
