"""Finds environment variables that begin with CNS_ and that nothing reads: most are misspelt settings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from cns_common.process.kill_points import VARIABLE as KILL_POINT

PREFIX = "CNS_"
LIKENESS_MIN = 0.6
"""The least similarity, from 0 to 1 by difflib's measure, at which a name is proposed."""
_OPTIONS = frozenset({"CNS_API", "CNS_PROFILE", "CNS_URL", "CNS_WORKER", "CNS_WORKERS"})
"""Options of commands that are not settings of the service's processes."""
_ELSEWHERE = _OPTIONS | {
    KILL_POINT,
    "CNS_BALANCER",  # deploy/haproxy.cfg
    "CNS_BASE_IMAGE",  # from here on: docker-compose.yml
    "CNS_CASSANDRA_HEAP",
    "CNS_CASSANDRA_IMAGE",
    "CNS_IMAGE",
    "CNS_PUBLISH",
    "CNS_REDIS_IMAGE",
}
_ELSEWHERE_FORM = re.compile(r"CNS_SERVERS_\w+|CNS_TEST_\w+|CNS_MODEL_\w+|CNS_API_[0-9]+")
"""Variables of deploy/servers, of tests, and of deploy/haproxy.cfg."""


def unread_variables(names: Iterable[str], settings: Iterable[str]) -> list[str]:
    """A line for each of the environment's `names` that nothing reads. `settings` are names without the prefix."""
    known = {f"{PREFIX}{setting.upper()}" for setting in settings}
    proposed = sorted(known | _OPTIONS)
    ours = sorted(name for name in names if name.upper().startswith(PREFIX))
    return [
        _line(name, proposed)
        for name in ours
        if name.upper() not in known | _ELSEWHERE and not _ELSEWHERE_FORM.fullmatch(name.upper())
    ]


def _line(name: str, proposed: list[str]) -> str:
    bare = {each.removeprefix(PREFIX): each for each in proposed}
    near = get_close_matches(name.upper().removeprefix(PREFIX), bare, 1, LIKENESS_MIN)
    return f"{name} is no setting, and is ignored" + (f": is {bare[near[0]]} meant?" if near else "")
