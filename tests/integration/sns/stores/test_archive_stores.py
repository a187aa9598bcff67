"""The contract of the archive and replay stores, for every driver."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns.archives.model import ArchivedMessage
from cns.archives.replay import Replay
from cns.stores.contract import ArchiveStore
from cns.stores.embedded import EmbeddedArchiveStore, EmbeddedNotificationStore
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.sqlite.database import Database
from tests.integration.sns.stores.cns_stores import NOTIFICATION, Stores

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
TOPIC = "arn:aws:sns:eu-west-1:111111111111:t"


@pytest.fixture
def archives(stores: Stores) -> ArchiveStore:
    return stores.archives


def message(number: int, at_ms: int, text: str = "text") -> ArchivedMessage:
    notification = replace(NOTIFICATION, id=str(number), timestamp_ms=at_ms, texts={"default": text})
    return ArchivedMessage(at_ms, f"{number:05d}", at_ms + 7 * DAY_MS, notification)


async def all_of(
    archives: ArchiveStore, n: int, from_ms: int = 0, until_ms: int = NOW_MS + DAY_MS
) -> list[ArchivedMessage]:
    """All messages of the archive, read in pages of `n`."""
    found: list[ArchivedMessage] = []
    while page := await archives.page("a", from_ms, until_ms, found[-1].key if found else "", n):
        assert len(page) <= n
        found += page
    return found


def keys(messages: Sequence[ArchivedMessage]) -> list[int]:
    return [int(each.key) for each in messages]


# -- archives ---------------------------------------------------------------------------------------------------------


async def test_appended_messages_are_read_unchanged(archives: ArchiveStore) -> None:
    given = [message(1, NOW_MS), message(2, NOW_MS + 1)]
    await archives.append("a", given)
    await archives.append("b", [message(3, NOW_MS)])
    assert await all_of(archives, 10) == given
    assert keys(await archives.page("b", 0, NOW_MS + 1, "", 10)) == [3]
    assert await archives.page("c", 0, NOW_MS + 1, "", 10) == []


async def test_an_appended_key_is_stored_once(archives: ArchiveStore) -> None:
    for _ in range(3):
        await archives.append("a", [message(1, NOW_MS)])
    assert keys(await all_of(archives, 10)) == [1]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100])
async def test_pages_are_in_the_order_of_keys_not_of_times(archives: ArchiveStore, n: int) -> None:
    """With clocks that differ by up to a minute, neighbours have times in the wrong order and minute."""
    skew = (0, 59, -58, 31, -30, 12, 5, -59, 58, -1, 0, 20)
    given = [message(number, NOW_MS + number * 20_000 + skew[number % 12] * 500) for number in range(40)]
    for start in (20, 0, 10, 30):
        await archives.append("a", given[start : start + 10])
    assert keys(await all_of(archives, n)) == list(range(40))


@pytest.mark.parametrize(
    ("from_s", "until_s", "expected"),
    [
        (0, 1, [0]),
        (60, 121, [1, 2]),
        (61, 120, []),
        (120, 10_000, [2, 3, 4]),
        (100 * 3600, 200 * 3600, []),
        (0, 86_400 * 3, [0, 1, 2, 3, 4, 9]),
    ],
)
async def test_windows(archives: ArchiveStore, from_s: int, until_s: int, expected: list[int]) -> None:
    await archives.append("a", [message(number, NOW_MS + number * MINUTE_MS) for number in range(5)])
    await archives.append("a", [message(9, NOW_MS + 2 * DAY_MS)])
    found = await all_of(archives, 2, NOW_MS + from_s * 1000, NOW_MS + until_s * 1000)
    assert keys(found) == expected


async def test_a_window_s_edge_among_disordered_times(archives: ArchiveStore) -> None:
    """A message in the window may have a lower key than one before the window."""
    times = [0, 40_000, 15_000, 70_000, 45_000]
    await archives.append("a", [message(number, NOW_MS + at_ms) for number, at_ms in enumerate(times)])
    assert keys(await all_of(archives, 10, NOW_MS + 20_000, NOW_MS + 50_000)) == [1, 4]
    assert keys(await all_of(archives, 1, NOW_MS + 40_000, NOW_MS + 70_001)) == [1, 3, 4]


async def test_a_busy_minute_is_read_in_order(archives: ArchiveStore) -> None:
    """In Cassandra a minute has several partitions, here of 1,000 bytes each."""
    given = [message(number, NOW_MS, "x" * 300) for number in range(12)]
    for each in given:
        await archives.append("a", [each])
    assert keys(await all_of(archives, 5)) == list(range(12))


async def test_a_dropped_archive_is_swept(archives: ArchiveStore) -> None:
    await archives.append("a", [message(number, NOW_MS + number) for number in range(5)])
    await archives.append("b", [message(1, NOW_MS)])
    await archives.drop("a")
    await archives.drop("a")
    while await archives.sweep(NOW_MS, 2):
        pass
    assert await all_of(archives, 10) == []
    assert keys(await archives.page("b", 0, NOW_MS + 1, "", 10)) == [1]


async def test_expired_messages_are_swept(swept_stores: Stores) -> None:
    archives = swept_stores.archives
    await archives.append("a", [message(number, NOW_MS + number) for number in range(5)])
    assert await archives.sweep(NOW_MS + 7 * DAY_MS - 1, 10) == 0
    assert await archives.sweep(NOW_MS + 7 * DAY_MS + 2, 2) == 2
    assert await archives.sweep(NOW_MS + 7 * DAY_MS + 2, 2) == 1
    assert keys(await all_of(archives, 10)) == [3, 4]


async def test_an_append_shares_a_commit(tmp_path: Path) -> None:
    database = Database(tmp_path, Clock())
    archives, notifications = EmbeddedArchiveStore(database), EmbeddedNotificationStore(database)
    database.start(asyncio.get_running_loop())
    before = database.commits
    await asyncio.gather(archives.append("a", [message(1, NOW_MS)]), notifications.put(NOTIFICATION, 1, 100))
    assert database.commits == before + 1
    await database.close()


# -- replays ----------------------------------------------------------------------------------------------------------


def replay(subscription: str = "s", **changes: object) -> Replay:
    values: dict[str, object] = {
        "id": f"replay of {subscription}",
        "topic_arn": TOPIC,
        "archive_id": "a",
        "subscription_arn": f"{TOPIC}:{subscription}",
        "policy": "{}",
        "start_ms": 5,
        "set_ms": 6,
    }
    return Replay(**(values | changes))  # type: ignore[arg-type]  # as above


async def test_a_subscription_has_one_replay(stores: Stores) -> None:
    first, second = replay(), replay(id="another", version=3)
    assert await stores.replays.get(first.subscription_arn) is None
    await stores.replays.put(first)
    await stores.replays.put(first)
    assert await stores.replays.get(first.subscription_arn) == first
    await stores.replays.put(second)
    assert await stores.replays.get(first.subscription_arn) == second
    assert await stores.replays.active() == [second]
    assert not await stores.replays.replace(replace(first, version=2), 1)


async def test_a_replay_is_replaced_only_at_its_version(stores: Stores) -> None:
    first = replay()
    await stores.replays.put(first)
    claimed = replace(first, claimed="5", status="In progress", version=2)
    assert await stores.replays.replace(claimed, 1)
    assert not await stores.replays.replace(replace(first, version=2), 1)
    assert await stores.replays.of_topic(TOPIC) == [claimed]
    assert not await stores.replays.replace(replay("gone", version=2), 1)


async def test_active_replays_are_found(stores: Stores) -> None:
    for name in ("s", "t", "u"):
        await stores.replays.put(replay(name))
    assert len(await stores.replays.active()) == 3
    assert await stores.replays.replace(replay("s", status="Completed", version=2), 1)
    await stores.replays.remove(f"{TOPIC}:t")
    await stores.replays.remove(f"{TOPIC}:t")
    assert await stores.replays.active() == [replay("u")]
    assert {one.subscription_arn[-1] for one in await stores.replays.of_topic(TOPIC)} == {"s", "u"}
    assert await stores.replays.of_topic(TOPIC + "x") == []
    await stores.replays.put(replay("s", id="anew"))
    assert {one.id for one in await stores.replays.active()} == {"replay of u", "anew"}
