"""In a fair queue, tenants with many messages in flight wait for tenants with few (spec/sqs.md 7.4)."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from cns_common.durations import HOUR_MS
from cqs.engines.contract import NOISY_IN_FLIGHT_MIN, Message
from tests.conformance.drivers import Driver
from tests.conformance.support import DONE, QueueFixture, bodies, numbered

pytestmark = pytest.mark.needs(fair=True)


def _tenants(messages: tuple[Message, ...] | list[Message]) -> Counter[str]:
    return Counter(message.group for message in messages)


async def _hold(queue: QueueFixture, tenant: str, n: int) -> list[Message]:
    """Put this many messages of a tenant in flight."""
    held: list[Message] = []
    await queue.send_entries([queue.entry(b"held", group=tenant) for _ in range(n)])
    while len(held) < n:
        held += await queue.take(min(10, n - len(held)), HOUR_MS)
    assert set(_tenants(held)) == {tenant}
    return held


async def _first_of(queue: QueueFixture, *tenants: str, want: int = 1) -> set[str]:
    """Return the tenants of the first messages received, after each tenant sent one in this order."""
    for tenant in tenants:
        await queue.send(b"x", group=tenant)
        queue.advance(1)
    return set(_tenants(await queue.take(want, HOUR_MS)))


async def test_without_noise_the_oldest_goes_first(standard: QueueFixture) -> None:
    assert not await standard.take()  # during the first fill of a cache an older message may come later
    assert await _first_of(standard, "a", "b") == {"a"}


@pytest.mark.spec("fair.mixed", "fair.group-returned")
async def test_the_tenant_is_returned(standard: QueueFixture) -> None:
    await standard.send(b"one", group="a")
    await standard.send(b"two")
    assert sorted(message.group for message in await standard.take()) == ["", "a"]


@pytest.mark.spec("fair.no-lock", "fair.no-dedup")
async def test_a_tenant_is_neither_an_order_nor_a_lock(standard: QueueFixture) -> None:
    await standard.send(*numbered(5), group="a", dedup="same")
    assert len(await standard.take(2)) == 2
    assert len(await standard.take(10)) == 3


@pytest.mark.spec("fair.noisy-in-flight")
@pytest.mark.parametrize(
    ("own", "others", "first"),
    [
        (NOISY_IN_FLIGHT_MIN - 1, 0, "loud"),  # too few to be noisy
        (NOISY_IN_FLIGHT_MIN, 0, "quiet"),
        (NOISY_IN_FLIGHT_MIN, 269, "quiet"),  # 30 of 299: more than a tenth
        (NOISY_IN_FLIGHT_MIN, 270, "loud"),  # 30 of 300: exactly a tenth
        (NOISY_IN_FLIGHT_MIN + 1, 270, "quiet"),
    ],
)
async def test_which_tenants_are_noisy(standard: QueueFixture, own: int, others: int, first: str) -> None:
    await _hold(standard, "loud", own)
    for i in range(0, others, 10):
        await _hold(standard, f"other {i}", min(10, others - i))
    assert await _first_of(standard, "loud", "quiet") == {first}


async def test_a_noisy_tenant_is_served_when_no_other_waits(standard: QueueFixture) -> None:
    await _hold(standard, "loud", 40)
    assert await _first_of(standard, "loud") == {"loud"}


@pytest.mark.spec("fair.noisy-served")
async def test_all_of_a_noisy_tenants_messages_are_served_in_the_end(standard: QueueFixture) -> None:
    await standard.send_entries([standard.entry(b"x", group="loud") for _ in range(120)])
    await standard.send_entries([standard.entry(b"x", group="quiet") for _ in range(20)])
    assert _tenants(await standard.drain(HOUR_MS)) == {"loud": 120, "quiet": 20}


@pytest.mark.spec("fair.quiet-first")
@pytest.mark.differs_by_engine
async def test_quiet_tenants_overtake_any_backlog(standard: QueueFixture) -> None:
    await _hold(standard, "loud", 40)
    await standard.send_entries([standard.entry(b"x", group="loud") for _ in range(500)])
    standard.advance(1)
    await standard.send_entries([standard.entry(b"x", group=f"quiet {i}") for i in range(8)])
    assert set(_tenants(await standard.take(8, HOUR_MS))) == {f"quiet {i}" for i in range(8)}


async def test_several_noisy_tenants(standard: QueueFixture) -> None:
    for tenant in ("loud", "louder"):
        await _hold(standard, tenant, 40)
    for tenant in ("loud", "louder"):
        await standard.send_entries([standard.entry(b"x", group=tenant) for _ in range(50)])
    standard.advance(1)
    assert await _first_of(standard, "quiet") == {"quiet"}


async def test_a_message_without_a_tenant_is_quiet(standard: QueueFixture) -> None:
    await _hold(standard, "loud", 40)
    await standard.send_entries([standard.entry(b"x", group="loud") for _ in range(50)])
    standard.advance(1)
    assert await _first_of(standard, "") == {""}


@pytest.mark.spec("fair.none-is-quiet")
async def test_messages_without_a_tenant_are_never_noisy_together(standard: QueueFixture) -> None:
    await _hold(standard, "quiet", 1)
    await _hold(standard, "", 60)
    assert await _first_of(standard, "", "quiet") == {""}


@pytest.mark.spec("fair.none-is-quiet")
async def test_messages_without_a_tenant_are_never_busy_together(standard: QueueFixture) -> None:
    await _hold(standard, "quiet", 1)
    await _work(standard, "", 5)
    assert await _first_of(standard, "", "quiet") == {""}


@pytest.mark.spec("fair.none-is-quiet", "fair.noisy-in-flight")
async def test_messages_without_a_tenant_count_in_all_in_flight(standard: QueueFixture) -> None:
    await _hold(standard, "loud", NOISY_IN_FLIGHT_MIN)
    for _ in range(27):
        await _hold(standard, "", 10)
    assert await _first_of(standard, "loud", "quiet") == {"loud"}


@pytest.mark.differs_by_engine
async def test_messages_sent_before_the_first_tenant(standard: QueueFixture) -> None:
    """Messages sent before the queue became fair are received in turn."""
    await standard.send(*numbered(12, b"early"))
    assert await standard.counts() == (12, 0, 0)  # fills the cache: until then, messages in it are received first
    standard.advance(60_000)  # more than a stalled call moves a time in Redis
    await standard.send_entries([standard.entry(b"late", group="loud") for _ in range(60)])
    taken = [await standard.take(10, HOUR_MS) for _ in range(2)]
    assert sorted(bodies(taken[0] + taken[1]))[:12] == numbered(12, b"early")
    assert len(await standard.drain(HOUR_MS)) == 52


@pytest.mark.spec("fair.state-ends")
async def test_noise_ends_with_its_leases(standard: QueueFixture) -> None:
    held = await _hold(standard, "loud", 40)
    assert await standard.delete(*held[:20]) == [DONE] * 20
    assert await _first_of(standard, "loud", "quiet") == {"loud"}


@pytest.mark.spec("fair.state-ends")
async def test_noise_ends_with_its_timeouts(standard: QueueFixture) -> None:
    await _hold(standard, "loud", 40)
    standard.advance(HOUR_MS + 300_000)
    assert await _first_of(standard, "loud", "quiet") == {"loud"}


@pytest.mark.spec("fair.noisy-processing-time")
@pytest.mark.differs_by_engine
@pytest.mark.parametrize("call", ["delete", "hide", "send"])
async def test_a_lease_that_ended_is_no_processing_time(standard: QueueFixture, call: str) -> None:
    """Whichever call is the first after a timeout counts the lease until its timeout only."""
    assert not await standard.take()
    await standard.send(*numbered(6), group="a")
    held = await standard.take(6, hide_ms=1)
    standard.advance(300_000)
    await standard.send(b"later", group="b")
    if call == "delete":
        assert await standard.delete(held[0]) == [DONE]
    elif call == "hide":
        assert await standard.hide(held[0], 1) is DONE
    else:  # as a dead-letter queue gets it
        again = replace(standard.entry(b"x", group="a", delay_ms=1), deliveries=1)
        await standard.send_entries([again])
    taken = [await standard.take_one(hide_ms=1) for _ in range(5)]
    assert _tenants(taken) == {"a": 5}


async def _work(queue: QueueFixture, tenant: str, rounds: int) -> None:
    """This many rounds of ten messages of a tenant, each in flight for 50 ms and then deleted."""
    for _ in range(rounds):
        held = await _hold(queue, tenant, 10)
        queue.advance(50)
        assert set(await queue.delete(*held)) == {DONE}


@pytest.mark.differs_by_engine
@pytest.mark.spec("fair.noisy-processing-time")
@pytest.mark.parametrize(("rounds", "first"), [(1, "loud"), (5, "quiet")])
async def test_a_tenant_that_keeps_consumers_busy_is_noisy(standard: QueueFixture, rounds: int, first: str) -> None:
    await _work(standard, "loud", rounds)
    assert await _first_of(standard, "loud", "quiet") == {first}


@pytest.mark.spec("fair.noisy-processing-time")
async def test_a_busy_tenant_has_more_than_a_tenth_of_the_work(standard: QueueFixture) -> None:
    for _ in range(10):
        for tenant in range(11):
            await _work(standard, f"t{tenant}", 1)
    assert await _first_of(standard, "t0", "quiet") == {"t0"}


@pytest.mark.spec("fair.least-noisy-first")
async def test_the_noisy_tenant_with_fewest_in_flight_goes_first(standard: QueueFixture) -> None:
    await _hold(standard, "louder", 50)
    await _hold(standard, "loud", 40)
    assert await _first_of(standard, "louder", "loud") == {"loud"}
    await standard.send_entries([standard.entry(b"x", group=tenant) for tenant in ["louder"] * 20 + ["loud"] * 3])
    assert _tenants(await standard.take(10, HOUR_MS)) == Counter(loud=3, louder=7)


async def test_a_batch_is_filled_with_messages_of_noisy_tenants(standard: QueueFixture) -> None:
    await _hold(standard, "loud", 40)
    await standard.send_entries([standard.entry(b"x", group="loud") for _ in range(20)])
    await standard.send(b"x", group="quiet")
    assert _tenants(await standard.take(10, HOUR_MS)) == Counter(quiet=1, loud=9)


async def test_deleted_messages_are_forgotten_after_their_timeout(standard: QueueFixture) -> None:
    for _ in range(3):
        await standard.send(b"x", group="a")
        assert await standard.delete(await standard.take_one(1_000)) == [DONE]
        standard.advance(2_000)
    assert await standard.counts() == (0, 0, 0)
    assert not await standard.take()


@pytest.mark.differs_by_engine
async def test_noisy_tenants_are_known_after_a_restart(standard: QueueFixture, driver: Driver) -> None:
    await _hold(standard, "loud", 40)
    assert await _first_of(await driver.restart(standard), "loud", "quiet") == {"quiet"}


async def test_a_queue_with_a_thousand_tenants(standard: QueueFixture) -> None:
    await _hold(standard, "loud", 400)
    await standard.send_entries([standard.entry(b"x", group=f"{i:04}") for i in range(1_000)])
    await standard.send_entries([standard.entry(b"x", group="loud") for _ in range(200)])
    tenants = _tenants(await standard.drain(HOUR_MS))
    assert tenants.pop("loud") == 200
    assert tenants == {f"{i:04}": 1 for i in range(1_000)}
