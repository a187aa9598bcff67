"""`cns up` without a worker of its own: API and store, for Celery workers to deliver from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.harness.running import ANNOUNCEMENT, START_S, Up, exports_in, start
from lab.harness.waiting import wait_until


@contextmanager
def storing(data: Path, *options: str) -> Iterator[Up]:
    """Run API and store. They answer calls, but are not ready as long as no worker delivers."""
    service = start(data, *options)
    try:
        wait_until(lambda: ANNOUNCEMENT in service.said() and _answers(service), START_S, service.said)
        service.environment.update(exports_in(service.said()))
        yield service
    finally:
        service.stop()


def _answers(service: Up) -> bool:
    try:
        return service.get("/health")[0] in (200, 503)
    except OSError:
        return False
