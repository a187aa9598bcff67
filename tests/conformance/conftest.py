"""Fixtures of the conformance suite, and the choice of drivers for a test: those that have what it `needs`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from cns_common.clock import Clock
from cqs.engines.contract import Engine
from lab.harness.keyspace import quick_sessions
from tests.conformance.drivers import DRIVERS, FORGETFUL, Driver
from tests.conformance.support import QueueFixture
from tests.late_calls import tolerate_late_calls, tolerate_stalls


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(**capabilities): run over drivers with these capabilities only")
    config.addinivalue_line("markers", "differs_by_engine: `make test` runs it over the driver `remote`, too")
    config.addinivalue_line("markers", "every_engine: `make test` runs it over every engine")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test over each driver that fits. With `fifo_queue`: over standard queues and, if the driver has them, FIFO
    queues.

    `make test` runs all over the embedded engine; over `remote`, tests marked with `differs_by_engine`; over those on
    Cassandra, tests marked with `every_engine`.
    """
    if "driver" not in metafunc.fixturenames:
        return
    needs = {name: value for mark in metafunc.definition.iter_markers("needs") for name, value in mark.kwargs.items()}
    if "fifo" in metafunc.fixturenames:
        needs["fifo"] = True
    fit = [name for name in DRIVERS if needs.items() <= _traits(name).items()]
    differs = metafunc.definition.get_closest_marker("differs_by_engine") is not None
    everywhere = metafunc.definition.get_closest_marker("every_engine") is not None

    def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
        in_gate = name == "embedded" or everywhere or (differs and name == "remote")
        return () if in_gate else (pytest.mark.extended,)

    if "fifo_queue" in metafunc.fixturenames:
        kinds = [(name, kind) for name in fit for kind in (False, True) if not kind or DRIVERS[name].fifo]
        values = [
            pytest.param(name, kind, marks=marks(name), id=f"{name}-{'fifo' if kind else 'standard'}")
            for name, kind in kinds
        ]
        metafunc.parametrize(("driver", "fifo_queue"), values, indirect=["driver"])
    else:
        metafunc.parametrize("driver", [pytest.param(name, marks=marks(name)) for name in fit], indirect=True)


def _traits(name: str) -> dict[str, object]:
    """The traits of a driver that a test may need: its capabilities, and leases that survive a restart."""
    return {**msgspec.structs.asdict(DRIVERS[name]), "keeps_leases": name not in FORGETFUL}


@pytest.fixture(scope="session", autouse=True)
def sessions_are_quick() -> Iterator[None]:
    with quick_sessions():
        yield


@pytest.fixture(autouse=True)
def stalls_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tolerate_stalls(monkeypatch)
    tolerate_late_calls(monkeypatch)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def driver(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Driver:
    return Driver(request.param, tmp_path, clock)


@pytest.fixture
async def engine(driver: Driver) -> AsyncIterator[Engine]:
    await driver.start()
    yield driver.engine
    await driver.stop()


@pytest.fixture
def standard(engine: Engine, clock: Clock) -> QueueFixture:
    return QueueFixture(engine, clock)


@pytest.fixture
def fifo(engine: Engine, clock: Clock) -> QueueFixture:
    return QueueFixture(engine, clock, fifo=True)


@pytest.fixture
def queue(engine: Engine, clock: Clock, fifo_queue: bool) -> QueueFixture:
    """A standard queue, then a FIFO queue."""
    return QueueFixture(engine, clock, fifo=fifo_queue)
