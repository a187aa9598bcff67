"""What is asked for at about the same time happens in one turn of the loop."""

from __future__ import annotations

import asyncio

from tests.turns import Turns
from workers.consumers.debounce import Beat

WITHIN_S = 0.02


async def test_what_comes_within_a_beat_happens_together_and_in_order() -> None:
    beat, turns = Beat(WITHIN_S), Turns()
    beat.soon(lambda: turns.say("first"))
    await asyncio.sleep(WITHIN_S / 4)
    beat.soon(lambda: turns.say("second"))
    assert turns.said == [], "not at once"
    await asyncio.sleep(2 * WITHIN_S)
    assert turns.said == [["first", "second"]]


async def test_another_beat_begins_with_what_comes_after_it() -> None:
    beat, turns = Beat(WITHIN_S), Turns()

    def say_twice() -> None:
        turns.say("first")
        beat.soon(lambda: turns.say("from within"))

    beat.soon(say_twice)
    await asyncio.sleep(4 * WITHIN_S)
    assert turns.said == [["first"], ["from within"]]
