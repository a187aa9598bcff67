"""Every store takes and refuses the same keys, embedded and in Cassandra."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cns_backend.backend import CONTRACTS, Backend
from cns_backend.cluster import open_cluster_backend
from cns_backend.store_host import StoreHost
from cns_common.cassandra.connection import CassandraAddress
from cns_common.configuration.settings import Settings
from cns_common.errors import RequestError
from cns_common.ids import hex_id
from cns_common.store_keys import KEY_CHARS_MAX, KeyRole
from lab.harness.keyspace import emptied
from tests.integration.errors.api_forms import cluster_settings
from tests.marks import examples

GENERATED = {"leases", "pool_sizes", "rates", "control", "signing_keys", "receipt_keys"}
"""Stores whose keys no caller chooses."""
DEPENDENT = {("replays", "put")}
"""Methods whose keys are parts of one another: of a subscription's ARN the topic's."""
WIDE = "漢" * KEY_CHARS_MAX
GOOD = st.one_of(st.just("k"), st.just(WIDE), st.text(min_size=1, max_size=50).filter(lambda text: text.isprintable()))
BAD = st.sampled_from(["", "a" * (KEY_CHARS_MAX + 1), WIDE + "漢", "a" * 70_000, "\ud800"])


class KeyPlace(NamedTuple):
    """A key in the arguments of a store's method."""

    store: str
    method: str
    path: tuple[str | int, ...]
    role: KeyRole


class Backends(NamedTuple):
    embedded: Backend
    cluster: Backend


@pytest.fixture
async def backends(tmp_path: Path, cassandra_address: CassandraAddress) -> AsyncIterator[Backends]:
    async with AsyncExitStack() as stack:
        host = StoreHost(Settings(data=tmp_path / "embedded", events="off", reserve_bytes=0))
        host.database.start(asyncio.get_running_loop())
        stack.push_async_callback(host.close)
        await stack.enter_async_context(emptied(cassandra_address))
        place = cluster_settings(tmp_path / "cluster", cassandra_address)
        yield Backends(host.backend, await stack.enter_async_context(open_cluster_backend(place)))


def _key_places() -> list[KeyPlace]:
    found = []
    for store, contract in CONTRACTS.items():
        for method, function in vars(contract).items():
            if store not in GENERATED and inspect.iscoroutinefunction(function):
                hints = _parameters(function)
                found += [KeyPlace(store, method, path, role) for path, role in _keys_in(hints)]
    return found


def _is_free(place: KeyPlace) -> bool:
    """Whether any text may be here, and more than once."""
    return place[:2] not in DEPENDENT and place.path[-1] != "id"


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    return {name: hints[name] for name in list(inspect.signature(function).parameters)[1:]}


def _keys_in(hint: Any) -> list[tuple[tuple[str | int, ...], KeyRole]]:
    """The paths to the keys in a value of this type; a dict stands for the fields of a record."""
    if isinstance(hint, dict):
        return [((name, *path), role) for name, inner in hint.items() for path, role in _keys_in(inner)]
    if get_origin(hint) is Annotated and isinstance(get_args(hint)[1], KeyRole):
        return [((), get_args(hint)[1])]
    if get_origin(hint) in (list, Sequence):
        return [((0, *path), role) for path, role in _keys_in(get_args(hint)[0])]
    if get_origin(hint) is tuple:
        return [((at, *path), role) for at, inner in enumerate(get_args(hint)) for path, role in _keys_in(inner)]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _keys_in(get_type_hints(hint, include_extras=True))
    return []


def _sample(hint: Any, path: tuple[str | int, ...] | None, key: str) -> Any:
    """A value of this type with `key` at `path`; None is a path that leads elsewhere."""

    def rest(step: str | int) -> tuple[str | int, ...] | None:
        return path[1:] if path and path[0] == step else None

    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, dict):
        return {name: _sample(inner, rest(name), key) for name, inner in hint.items()}
    if origin is Annotated:
        return "k" if path is None else key
    if origin in (list, Sequence):
        return [_sample(parts[0], rest(0), key)]
    if origin is tuple:
        return tuple([_sample(part, rest(at), key) for at, part in enumerate(parts)])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        fields = get_type_hints(hint, include_extras=True)
        required = {field.name for field in msgspec.structs.fields(hint) if field.required} | set((path or ())[:1])
        values = _sample({name: fields[name] for name in fields if name in required}, path, key)
        return hint(**(values if rest("id") is not None or "id" not in values else {**values, "id": hex_id()}))
    return _plain(hint)


def _plain(hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (UnionType, Union):
        return None if NoneType in parts else _sample(parts[0], None, "")
    if origin is Literal:
        return parts[0]
    if origin is dict:
        return {"Token": "k"}  # mobile endpoints need a token
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    return {str: "k", int: 1, bool: True, bytes: b"b"}[hint]


async def _outcome(backend: Backend, place: KeyPlace, key: str) -> str:
    """Whether the call is refused. Any error but RequestError is none that a key may cause."""
    method = getattr(backend, place.store), place.method
    arguments = _sample(_parameters(getattr(CONTRACTS[place.store], place.method)), place.path, key)
    try:
        await getattr(*method)(**arguments)
    except RequestError as error:
        return error.code
    return "answered"


def test_every_store_has_keys() -> None:
    assert {place.store for place in _key_places()} == CONTRACTS.keys() - GENERATED


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # the warning would hide a failure's message
@settings(
    max_examples=examples(100), database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)
@given(st.sampled_from(_key_places()), BAD)
async def test_all_stores_refuse_the_same_keys(backends: Backends, place: KeyPlace, key: str) -> None:
    expected = "InvalidParameterValue"
    if place.role is KeyRole.OPTIONAL and not key:
        expected = await _outcome(backends.embedded, place, key)
    assert [await _outcome(backend, place, key) for backend in backends] == [expected] * 2


@settings(
    max_examples=examples(30), database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)
@given(st.sampled_from([place for place in _key_places() if _is_free(place)]), GOOD)
async def test_all_stores_take_the_same_keys(backends: Backends, place: KeyPlace, key: str) -> None:
    embedded, cluster = [await _outcome(backend, place, key) for backend in backends]
    assert embedded == cluster
    assert embedded == "answered" or place.store == "accounts"  # accounts that do not exist are refused
