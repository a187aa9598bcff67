"""A period of event time, and its options: --since, --until, --day."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from cns_common.durations import DAY_MS
from cns_common.errors import EXIT_USAGE, StartError

END_MS = 253_402_300_800_000
"""The end of the year 9999, in ms since the epoch: events are before it."""
WEEK_MS = 7 * DAY_MS
_AGO = re.compile(r"-?([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}
_DAYS_AGO = {"today": 0, "yesterday": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HINT = "a time like 2026-11-22 or 2026-11-22T08:00 (UTC), or a span before now like -24h or -7d"


@dataclass(frozen=True, slots=True)
class Period:
    """The half-open interval `[since_ms, until_ms)` of event time, in ms since the epoch, UTC."""

    since_ms: int = 0
    until_ms: int = END_MS

    @property
    def span_ms(self) -> int:
        return self.until_ms - self.since_ms

    @property
    def is_everything(self) -> bool:
        return self == EVERYTHING

    def earlier(self, by_ms: int) -> Period | None:
        """The same span `by_ms` earlier; None if it would begin before 1970, or if the period is open."""
        if self.since_ms < by_ms or self.until_ms == END_MS:
            return None
        return Period(self.since_ms - by_ms, self.until_ms - by_ms)

    def __str__(self) -> str:
        if self.is_everything:
            return "all events"
        since = "the beginning" if self.since_ms == 0 else _iso(self.since_ms)
        until = "the end" if self.until_ms == END_MS else _iso(self.until_ms)
        return f"{since} to {until}"


EVERYTHING = Period()


def parse_period(since: str, until: str, day: str, now_ms: int) -> Period:
    """Parse the options; empty ones are not given. `since` alone ends now. Raises StartError for other text."""
    if day and (since or until):
        raise _refused("--day goes without --since and --until")
    if day:
        since_ms = _day_ms(day, now_ms)
        return Period(since_ms, since_ms + DAY_MS)
    if not (since or until):
        return EVERYTHING
    since_ms = _time_ms("--since", since, now_ms) if since else 0
    until_ms = _time_ms("--until", until, now_ms) if until else now_ms
    if since_ms >= until_ms:
        raise _refused(f"--since {since or 'the beginning'} is not before {f'--until {until}' if until else 'now'}")
    return Period(since_ms, until_ms)


def _day_ms(text: str, now_ms: int) -> int:
    days_ago = _DAYS_AGO.get(text)
    if days_ago is not None:
        return now_ms - now_ms % DAY_MS - days_ago * DAY_MS
    try:
        return _checked_ms(datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC))
    except (ValueError, OverflowError):
        raise _refused(f"--day {text!r} is neither a date like 2026-11-22 nor `today` nor `yesterday`") from None


def _time_ms(option: str, text: str, now_ms: int) -> int:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(now_ms - int(ago[1]) * _UNIT_MS[ago[2]], 0)
    try:
        at = datetime.fromisoformat(text)
        return _checked_ms(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise _refused(f"{option} {text!r} is not {_HINT}") from None


def _checked_ms(at: datetime) -> int:
    """Raises ValueError for a time before 1970, or after 9999 in UTC."""
    at_ms = (at - _EPOCH) // timedelta(milliseconds=1)
    if not 0 <= at_ms < END_MS:
        raise ValueError
    return at_ms


def _iso(at_ms: int) -> str:
    text = (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00").removesuffix(".000").removesuffix(":00") + "Z"


def _refused(text: str) -> StartError:
    return StartError(text, EXIT_USAGE)
