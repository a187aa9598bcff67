"""Queues of other services: which ARNs are theirs, where they are, and by whose key they are sent to."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from re import compile as pattern
from typing import NamedTuple

import msgspec

from cns.arns import parse_queue_arn
from cns_common.configuration.value_types import RemoteQueues

ARNS_CACHED_MAX = 10_000


class Place(NamedTuple):
    """A service that speaks the SQS API. Its key must be allowed to send to the queues."""

    url: str
    key_id: str
    secret: str


class RemoteQueue(msgspec.Struct, frozen=True):
    arn: str
    url: str
    region: str
    place: Place


class RemoteQueueResolver:
    """By the patterns of their queues' ARNs, with `*` for any text; the first that matches counts."""

    def __init__(self, mapping: Iterable[RemoteQueues]) -> None:
        self._places = [
            (pattern(translate(one.arns)), Place(one.url.rstrip("/"), one.key_id, one.secret)) for one in mapping
        ]
        self._find = lru_cache(maxsize=ARNS_CACHED_MAX)(self._look_up)

    def find(self, queue_arn: str) -> RemoteQueue | None:
        """The queue, if it is another service's."""
        return self._find(queue_arn) if self._places else None

    def _look_up(self, queue_arn: str) -> RemoteQueue | None:
        arn = parse_queue_arn(queue_arn)
        place = next((place for form, place in self._places if form.fullmatch(queue_arn)), None)
        if arn is None or place is None:
            return None
        return RemoteQueue(queue_arn, f"{place.url}/{arn.account}/{arn.resource}", arn.region, place)
