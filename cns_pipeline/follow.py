"""Ingests segments as they are sealed, until it is told to stop."""

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
"""Spark keeps the name of each segment it ever read; a new query begins with those that are still there."""


class Follower:
    """One streaming query after another over new segments. `say` gets a line for each batch that has new lines.

    A stop lets the batch that is being added end. What Spark begins meanwhile is left to the next run.
    """

    def __init__(self, work: SegmentIngest, every_s: float, say: Callable[[str], None]) -> None:
        self._work = work
        self._every_s = every_s
        self._say = say
        self._adding = threading.Lock()
        self._batches = 0  # of the present query
        self._is_closed = False  # the present query adds no more
        self._is_stopping = False
        self._wake = threading.Event()

    def stop(self) -> None:
        """End `run` soon. For any thread, and for signal handlers."""
        self._is_stopping = True
        self._wake.set()

    def run(self) -> IngestResult:
        """Return what was added until the stop. Raises what fails in Spark."""
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
            with suppress(PySparkException, Py4JError):  # the table is whole at any time, and the next run goes on
                query.stop()
        else:
            query.awaitTermination()  # it ended by itself: this raises why

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
        with suppress(PySparkException, Py4JError):  # `run` raises it
            query.awaitTermination()
        wake.set()


def describe(added: IngestResult) -> str:
    """A batch in a line."""
    aside = f", {added.malformed + added.newer} of them kept aside" if added.malformed + added.newer else ""
    return f"{added.lines} new lines{aside}"


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT, instead of what they did before. For the main thread."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, handle) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
