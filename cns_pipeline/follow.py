"""Ingests segments as they are sealed, until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from cns_pipeline.ingest import IngestResult, SegmentIngest

STOPS = (signal.SIGTERM, signal.SIGINT)
BATCHES_PER_QUERY = 10_000
"""Spark keeps the name of each segment that a query has read; a new query begins with those that still exist."""


class Follower:
    """Runs one streaming query after another over new segments. `say` gets a line for each batch with new lines.

    A stop waits for the batch that is being added. Batches that Spark begins after it are left to the next run.
    """

    def __init__(self, work: SegmentIngest, every_s: float, say: Callable[[str], None]) -> None:
        self._work = work
        self._every_s = every_s
        self._say = say
        self._adding = threading.Lock()
        self._batches = 0  # of the current query
        self._is_closed = False  # the current query adds no more batches
        self._is_stopping = False
        self._wake = threading.Event()

    def stop(self) -> None:
        """Make `run` return soon. May be called from any thread and from signal handlers."""
        self._is_stopping = True
        self._wake.set()

    def run(self) -> IngestResult:
        """Returns the lines that were added until the stop. Raises the errors of Spark."""
        while not self._is_stopping:
            self._run_query()
        return self._work.total

    def _run_query(self) -> None:
        self._wake = wake = threading.Event()
        self._batches, self._is_closed = 0, False
        writer = self._work.prepared_query().foreachBatch(self._add)
        query = writer.trigger(processingTime=f"{round(self._every_s * 1000)} milliseconds").start()
        threading.Thread(target=self._wake_at_end, args=[query, wake], daemon=True).start()
        while not (self._is_stopping or self._is_closed or wake.is_set()):
            wake.wait()
        is_asked = self._is_stopping or self._is_closed
        with self._adding:
            self._is_closed = True
        if is_asked:
            with suppress(PySparkException, Py4JError):  # the table is always consistent, and the next run continues
                query.stop()
        else:
            query.awaitTermination()  # the query ended by itself: this raises its error

    def _add(self, lines: DataFrame, _: int) -> None:
        with self._adding:
            if self._is_stopping or self._is_closed:
                raise InterruptedError("ingest stops")
            added = self._work.add(lines)
            self._batches += 1
            self._is_closed = self._batches >= BATCHES_PER_QUERY
        if added.lines:
            self._say(describe(added))
        if self._is_closed:
            self._wake.set()

    def _wake_at_end(self, query: StreamingQuery, wake: threading.Event) -> None:
        with suppress(PySparkException, Py4JError):  # `run` raises the error
            query.awaitTermination()
        wake.set()


def describe(added: IngestResult) -> str:
    """A line about a batch."""
    aside = f", {added.malformed + added.newer} of them kept aside" if added.malformed + added.newer else ""
    return f"{added.lines} new lines{aside}"


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT, in place of their handlers. Only for the main thread."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, handle) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
