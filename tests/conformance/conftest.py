"""Fixtures of the conformance suite, and which drivers a test runs over: those that have what it `needs`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from cns_common.clock import Clock
from cqs.engines.cluster import known_queues
from cqs.engines.contract import Engine
from tests.conformance.drivers import DRIVERS, FAIR, FORGETFUL, Driver
from tests.conformance.support import Desk


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(**capabilities): run over drivers with these capabilities only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Over each driver that fits; with `fifo_queue`, over standard queues and, where a driver has them, FIFO ones."""
    if "driver" not in metafunc.fixturenames:
        return
    needs = {name: value for mark in metafunc.definition.iter_markers("needs") for name, value in mark.kwargs.items()}
    if "fifo" in metafunc.fixturenames:
        needs["fifo"] = True
    fit = [name for name in DRIVERS if needs.items() <= _traits(name).items()]
    if "fifo_queue" in metafunc.fixturenames:
        kinds = [(name, kind) for name in fit for kind in (False, True) if not kind or DRIVERS[name].fifo]
        ids = [f"{name}-{'fifo' if kind else 'standard'}" for name, kind in kinds]
        metafunc.parametrize(("driver", "fifo_queue"), kinds, indirect=["driver"], ids=ids)
    else:
        metafunc.parametrize("driver", fit, indirect=True)


def _traits(name: str) -> dict[str, object]:
    """What a test may need of a driver: its capabilities, fairness, leases that survive a restart."""
    return {**msgspec.structs.asdict(DRIVERS[name]), "fair": name in FAIR, "keeps_leases": name not in FORGETFUL}


@pytest.fixture(autouse=True)
def fills_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine, too, a receive finds what was sent: an engine may answer with nothing meanwhile."""
    monkeypatch.setattr(known_queues, "FILL_WAIT_S", known_queues.FILL_WAIT_S * 60)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def driver(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Driver:
    return Driver(request.param, tmp_path, clock)


@pytest.fixture
async def engine(driver: Driver) -> AsyncIterator[Engine]:
    async with driver.open() as engine:
        yield engine


@pytest.fixture
def standard(engine: Engine, clock: Clock) -> Desk:
    return Desk(engine, clock)


@pytest.fixture
def fifo(engine: Engine, clock: Clock) -> Desk:
    return Desk(engine, clock, fifo=True)


@pytest.fixture
def desk(engine: Engine, clock: Clock, fifo_queue: bool) -> Desk:
    """A standard queue, and a FIFO queue."""
    return Desk(engine, clock, fifo=fifo_queue)
