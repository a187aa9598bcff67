"""The live view of `cns top`: headings are whole, names are cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cns_cli.overview.rates import EndpointRate, QueueRate
from cns_cli.overview.top import _ENDPOINT, _QUEUE, TopView, _screen


@pytest.mark.parametrize("width", [80, 130])
def test_headings_are_whole_beside_a_long_name(width: int) -> None:
    queue = QueueRate("q" * 80, 1.0, 22222.0, 333.0, 4444444, 5, 6)
    view = TopView("http://x", "green", 2.0, [queue], [], [EndpointRate("http http://" + "e" * 200, 1.0, 2.0)])
    page = io.StringIO()
    Console(width=width, file=page).print(_screen(view))
    lines = page.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    for titles in (_QUEUE, _ENDPOINT):
        assert any(line.split() == " ".join(titles).split() for line in lines)
    assert sum("…" in line for line in lines) == 2
