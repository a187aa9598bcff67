"""Formats numbers, times and untrusted text for people, on the page and on the terminal."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

from cns_common.durations import DAY_MS, HOUR_MS
from cns_pipeline.period import END_MS

TEXT_CHARS_MAX = 400
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories of control and format characters, which control a terminal or reverse the text of a page."""
_COUNT_UNITS = ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e3, 1e3, " k"))
_BYTE_UNITS = ((1e12, 1 << 40, " TiB"), (1e9, 1 << 30, " GiB"), (1e6, 1 << 20, " MiB"), (1e3, 1 << 10, " KiB"))
_TIME_UNITS_MS = ((2 * DAY_MS, DAY_MS, " d"), (2 * HOUR_MS, HOUR_MS, " h"), (120_000, 60_000, " min"), (1e3, 1e3, " s"))
"""The least number for a unit, its factor, its name."""


def plain(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Make untrusted text safe to show: replace control and format characters, and cut a long text."""
    seen = "".join([REPLACEMENT if unicodedata.category(char) in _UNSEEN else char for char in text[: chars_max + 1]])
    return seen if len(seen) <= chars_max else seen[: chars_max - 1] + "…"


def short_arn(arn: str) -> str:
    """The last part of an ARN; for a subscription, the name of the topic and the first characters of the id."""
    parts = arn.split(":")
    if len(parts) < 6:
        return arn
    if parts[2] == "sns" and len(parts) > 6:
        return f"{parts[5]}:{parts[6][:8]}"
    return ":".join(parts[5:])


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, thing: str) -> str:
    """A number with its noun: 1 event, 12 events."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def are(number: int) -> str:
    """The verb after a number: is, are."""
    return "is" if number == 1 else "are"


def rounded(number: float) -> str:
    """About three digits, for axes: 950, 1.2 k, 34 M."""
    return _scaled(number, _COUNT_UNITS) or f"{number:.3g}"


def share(fraction: float | None) -> str:
    """A share in percent; it is never rounded to 0 % or 100 %."""
    if fraction is None:
        return "–"
    if 0 < fraction < 0.0001:
        return "< 0.01%"
    if 0.9999 < fraction < 1:
        return "> 99.99%"
    percent = f"{100 * fraction:.2f}" if fraction < 0.1 or fraction > 0.9 else f"{100 * fraction:.1f}"
    return f"{percent.rstrip('0').rstrip('.')}%"


def milliseconds(number: float | None) -> str:
    """A duration: 350 ms, 61.2 s, 3 min, 2.5 h."""
    if number is None:
        return "–"
    return _scaled(number, _TIME_UNITS_MS) or f"{number:.3g} ms"


def size(number: float) -> str:
    return _scaled(number, _BYTE_UNITS) or f"{number:.0f} B"


def times(ratio: float) -> str:
    """A ratio: 4×, 1.3×."""
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0") + "×"


def moment(at_ms: int) -> str:
    """A time in UTC, to the minute."""
    return f"{_utc(at_ms):%Y-%m-%d %H:%M}"


def clock_time(at_ms: int) -> str:
    return f"{_utc(at_ms):%H:%M}"


def day_of_month(at_ms: int) -> str:
    return f"{_utc(at_ms):%d %b}".removeprefix("0")


def span(since_ms: int, until_ms: int) -> str:
    """Two times in words; the second without its day if both are on the same day."""
    if since_ms // DAY_MS == until_ms // DAY_MS:
        return f"from {clock_time(since_ms)} to {clock_time(until_ms)} on {day_of_month(since_ms)}"
    return (
        f"from {clock_time(since_ms)} on {day_of_month(since_ms)} to {clock_time(until_ms)} on {day_of_month(until_ms)}"
    )


def _utc(at_ms: int) -> datetime:
    """The time as a datetime; times after 9999, as of a period without an end, become its last."""
    return datetime.fromtimestamp(min(at_ms, END_MS - 1) / 1000, UTC)


def _scaled(number: float, units: tuple[tuple[float, float, str], ...]) -> str:
    for least, unit, name in units:
        if number >= least:
            scaled = number / unit
            digits = 0 if scaled >= 100 else 1
            return f"{scaled:.{digits}f}".removesuffix(".0") + name
    return ""


def mostly(most: int, number: int, topic: str, endpoint: str) -> str:
    """The end of a sentence about `number` things: the topic and endpoint that have the most of them."""
    target = " → ".join([short_arn(name) for name in (topic, endpoint) if name])
    if not target or not most:
        return ""
    return f"; {'all' if most == number else count(most)} of {target}"
