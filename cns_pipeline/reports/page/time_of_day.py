"""Traffic by time of day, to see when maintenance disturbs least and when a queue is busiest."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cns_common.charts.markup import tag
from cns_common.durations import HOUR_S
from cns_pipeline.health.document import Health, HourOfDay
from cns_pipeline.reports.page.bar_charts import Bin, histogram
from cns_pipeline.reports.page.tables import Cell, details, number, number_columns, section, table, text_columns, words
from cns_pipeline.reports.text import counted

_HOURS = 24
_CHARTS = {
    ("topic", "accepted"): ("Messages accepted per hour", "accepted"),
    ("endpoint", "delivered"): ("Successful attempts per hour", "delivered"),
    ("endpoint", "failed"): ("Failed attempts per hour", "failed"),
    ("queue", "sent"): ("Messages sent to queues per hour", "accepted"),
    ("queue", "received"): ("Messages received from queues per hour", "delivered"),
}


def time_of_day_section(health: Health) -> Element | None:
    if not health.by_hour:
        return None
    figures = []
    for key, (title, style) in _CHARTS.items():
        hours = {one.hour: one for one in health.by_hour if (one.kind, one.measure) == key}
        if hours:
            bins = [_bin(hour, hours.get(hour)) for hour in range(_HOURS)]
            figures.append(tag("figure", histogram(title, bins, style=style), tag("figcaption", title)))
    return section(
        "time-of-day",
        "Time of day",
        tag("p", f"The mean of {counted(health.by_hour_days, 'day')}, by hour of the day (UTC).", class_="muted"),
        tag("div", *figures, class_="charts"),
        details("Time of day as a table", _table(health)),
    )


def _bin(hour: int, one: HourOfDay | None) -> Bin:
    return Bin(f"{hour:02}", f"{hour:02}:00 to {hour:02}:59", round(one.per_second * HOUR_S) if one else 0)


def _table(health: Health) -> Element:
    columns = (*text_columns("of", "measure"), *number_columns("hour", "per hour", "per second"))
    rows = [
        (
            words(one.kind),
            words(one.measure),
            number(one.hour),
            number(round(one.per_second * HOUR_S)),
            Cell(f"{one.per_second:.3g}", one.per_second),
        )
        for one in health.by_hour
    ]
    return table("Means by hour of the day", columns, rows)
