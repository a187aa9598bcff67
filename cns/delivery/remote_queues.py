"""Queues of other services: which queue ARNs belong to which service, and the URLs of the queues."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache

import msgspec

from cns.arns import parse_queue_arn
from cns.queue_port.sqs_requests import SqsService
from cns_common.configuration.value_types import RemoteQueues

ARNS_CACHED_MAX = 10_000


class RemoteQueue(msgspec.Struct, frozen=True):
    """The key of the service must be allowed to send to the queue."""

    arn: str
    url: str
    region: str
    service: SqsService


class RemoteQueueResolver:
    """Finds the service of a queue by patterns of ARNs, in which `*` stands for any text. The first match counts."""

    def __init__(self, mapping: Iterable[RemoteQueues]) -> None:
        self._services = [
            (re.compile(translate(one.arns)), SqsService(one.url.rstrip("/"), one.key_id, one.secret))
            for one in mapping
        ]
        self._find = lru_cache(maxsize=ARNS_CACHED_MAX)(self._look_up)

    def find(self, queue_arn: str) -> RemoteQueue | None:
        """The queue, or None when it is this service's own."""
        return self._find(queue_arn) if self._services else None

    def _look_up(self, queue_arn: str) -> RemoteQueue | None:
        arn = parse_queue_arn(queue_arn)
        service = next((service for pattern, service in self._services if pattern.fullmatch(queue_arn)), None)
        if arn is None or service is None:
            return None
        return RemoteQueue(queue_arn, f"{service.url}/{arn.account}/{arn.resource}", arn.region, service)
