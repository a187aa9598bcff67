"""The small charts of a queue's page: their text, one scale for all, and nothing without figures."""

from __future__ import annotations

import re

from cns_server.pages.views.charts import HEIGHT, MINUTE_MS, MINUTES, charts

NOW = 1_000


def test_charts_of_the_last_hour_have_one_scale() -> None:
    figures = {"sent": [(NOW - MINUTES, 90.0), (NOW - 3, 8.0), (NOW, 4.0)], "<received>": [(NOW - 1, 2.0)]}
    sent, received = charts(figures, NOW * MINUTE_MS)
    assert "<figcaption>Sent: 12 in the last hour, 8 a minute at most</figcaption>" in sent
    assert "<figcaption>&lt;received&gt;: 2 in the last hour, 2 a minute at most</figcaption>" in received
    assert 'aria-hidden="true"' in sent
    heights = [[float(y) for y in re.findall(r",([\d.]+)", drawn)] for drawn in (sent, received)]
    assert [len(line) for line in heights] == [MINUTES, MINUTES]
    assert [min(line) for line in heights] == [2.0, 26.0]  # 8 and 2 of 8
    assert heights[0][-1] == HEIGHT - 18.0
    assert heights[0][0] == HEIGHT - 2.0


def test_no_figure_is_no_chart() -> None:
    assert charts({"sent": [(NOW - MINUTES, 1.0)]}, NOW * MINUTE_MS) == []
    assert charts({}, NOW * MINUTE_MS) == []
