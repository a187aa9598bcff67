"""The selection of messages from a popper's pipes: the oldest, or one of each pipe in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cqs.engines.pipes.view import Item, PipeView


class SelectedMessage(NamedTuple):
    view: PipeView
    item: Item


First = Callable[[PipeView], Item | None]
"""The next message that may be taken of a pipe."""


def take_oldest(views: Sequence[PipeView], want: int, first: First) -> list[SelectedMessage]:
    """The messages that became visible first, over all pipes."""
    taken: list[SelectedMessage] = []
    while len(taken) < want:
        offers = [(item.due_ms, view.name, item.place, view, item) for view in views if (item := first(view))]
        if not offers:
            break
        *_, view, item = min(offers, key=lambda offer: offer[:3])
        view.take(item)
        taken.append(SelectedMessage(view, item))
    return taken


def take_in_turn(views: Sequence[PipeView], want: int, first: First, after: str) -> list[SelectedMessage]:
    """The oldest message of each pipe in turn, from the pipe that follows the one served last (seed 003)."""
    order = [*(view for view in views if view.name > after), *(view for view in views if view.name <= after)]
    taken: list[SelectedMessage] = []
    while order and len(taken) < want:
        left = []
        for view in order:
            item = first(view) if len(taken) < want else None
            if item is not None:
                view.take(item)
                taken.append(SelectedMessage(view, item))
                left.append(view)
        order = left
    return taken
