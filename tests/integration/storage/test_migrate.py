"""`cns migrate`: everything that a store has goes to a cluster and back, and no two copies live.

What may differ afterwards: the engine of a queue, by name; when an ended session is forgotten; when a notification that
jobs refer to expires, by up to a second; filter positions that processes cache; receipt handles.
"""

from __future__ import annotations

import asyncio
import base64
import errno
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cns.archives.model import Archive, ArchivedMessage
from cns.archives.replay import Replay
from cns.delivery.outbox import OutboxItem, item_id
from cns.notification import Notification
from cns.push.model import MobileEndpoint, PlatformApplication
from cns.sms.numbers import NumberState, SandboxNumber
from cns.subscriptions.subscription import ConfirmationToken, Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_backend import cluster as cluster_module
from cns_backend.backend import Backend
from cns_backend.cluster import open_cluster_backend
from cns_backend.schema import table_names
from cns_backend.store_host import StoreHost
from cns_backend.stores.cassandra.move_marks import CassandraMoveMarks, check_unmoved
from cns_backend.stores.contract import PoolSize
from cns_backend.transfer import run
from cns_backend.transfer.copying import copy_queues
from cns_backend.transfer.embedded import open_embedded_side
from cns_backend.transfer.moves import FileMoveMarks, Progress, Store, find_move, take_back
from cns_backend.transfer.places import Places
from cns_backend.transfer.records import KINDS, QUEUES
from cns_backend.transfer.side import Side
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_FULL
from cns_common.errors import StartError, StoreUnavailable
from cns_common.move_mark import MoveMark
from cqs.engines import cluster as engine_module
from cqs.engines.cluster import MAINTENANCE_INTERVAL_S, RENEW_INTERVAL_S, ROUND_INTERVAL_S, ClusterEngine
from cqs.engines.cluster.ownership.background import BackgroundWork
from cqs.engines.cluster.ownership.processes import LAPSED_MS, RENEW_INTERVAL_MS
from cqs.engines.contract import Entry
from cqs.engines.moved_message import MovedMessage
from cqs.internal_queues import internal_key, internal_queue
from cqs.queues.model import Queue
from cqs.queues.view import view_of
from cqs.redrive.task import MoveTask
from lab.harness.keyspace import emptied
from tests.machine_clocks import MachineClocks
from tests.marks import examples

NOW_MS = 1_790_000_000_000
END_MS = NOW_MS + 300 * 86_400_000
REGION = "eu-central-1"
KEY = base64.b64encode(b"k" * 32).decode()
Late = list[Callable[[], Awaitable[object]]]


def quiet(_: str) -> None:
    """Show no progress."""


def begin(_messages: int, _move: object) -> None:
    """Begin without a question."""


def embedded(directory: Path) -> Settings:
    return Settings(data=directory, events="off", reserve_bytes=0, master_key=KEY)


def cluster(directory: Path, place: CassandraAddress) -> Settings:
    return Settings(
        data=directory / "machine",
        events="off",
        store="cassandra",
        cassandra=f"{place.hosts[0]}:{place.port}",
        cassandra_keyspace=place.keyspace,
        master_key=KEY,
    )


@pytest.fixture(autouse=True, scope="module")
def late_statements() -> Iterator[Late]:
    """Statements that take effect late. No test waits for their time."""
    late: Late = []

    async def wait(seconds: float) -> None:
        assert seconds == run.LATE_S
        while late:
            await late.pop()()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "sleep", wait)
        yield late


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Backend]:
    """The backend of a service on the data directory."""
    host = StoreHost(settings)
    await host.start()
    try:
        yield host.backend
    finally:
        await host.close()


async def fill(backend: Backend) -> None:
    """Something of each kind."""
    key = await backend.accounts.create(NOW_MS)
    account = key.account
    await backend.accounts.internal_key(NOW_MS)
    await backend.accounts.set_owner_name(account, "Ida Noddack")
    await backend.accounts.set_password(account, "scrypt$x", NOW_MS)
    await backend.accounts.add_user(account, "ann", NOW_MS)
    await backend.accounts.end_session("5e55", NOW_MS + 3_600_000, NOW_MS)
    queue = Queue(
        id="9" * 32,
        account=account,
        region=REGION,
        name="q",
        engine="embedded",
        created_ms=1,
        modified_ms=2,
        version=7,
        attributes={"DelaySeconds": "3"},
        tags={"a": "b"},
    )
    await backend.queues.create(queue)
    gone = replace(queue, id="8" * 32, name="gone")
    await backend.queues.create(gone)
    await backend.queues.delete(gone, NOW_MS)
    task = MoveTask(id="t1", account=account, source_arn=queue.arn, source_id=queue.id, started_ms=NOW_MS, to_move=4)
    await backend.move_tasks.create(task)
    await backend.move_tasks.replace(replace(task, status="COMPLETED", version=2), 1)
    await backend.move_tasks.create(replace(task, id="t2", started_ms=NOW_MS + 1))
    await _fill_topics(backend, account)
    await _fill_phones(backend, account)
    await backend.signing_keys.identity(NOW_MS)
    await backend.pool_sizes.put(PoolSize(pool="delivery", threads=3, set_by="x", set_at_ms=1))


async def _fill_topics(backend: Backend, account: str) -> None:
    topic = Topic(id="7" * 32, account=account, region=REGION, name="t", created_ms=1, archive=Archive("a1", 1))
    await backend.topics.create(topic)
    states = (
        SubscriptionState.PENDING,
        SubscriptionState.CONFIRMED,
        SubscriptionState.CONFIRMED,
        SubscriptionState.REMOVED,
    )
    for n, state in enumerate(states):
        made = Subscription(
            id=f"{n}" * 8, topic_arn=topic.arn, topic_id=topic.id, owner=account, principal="p", protocol="https",
            endpoint=f"https://example.com/{n}", state=state, created_ms=1, version=3,
            expires_ms=0 if state is SubscriptionState.CONFIRMED else NOW_MS + 86_400_000,
            attributes={"FilterPolicy": '{"a":["b"]}', "DeliveryPaused": "true"} if n == 2 else {},
        )  # fmt: skip
        token = ConfirmationToken(f"token{n}", made.arn, NOW_MS + 86_400_000) if n == 0 else None
        assert await backend.subscriptions.create(made, token) == made
    gone = replace(topic, id="6" * 32, name="gone", archive=None)
    await backend.topics.create(gone)
    left = replace(made, id="99999999", topic_arn=gone.arn, topic_id=gone.id)
    await backend.subscriptions.create(left, None)
    await backend.topics.delete(gone.arn)
    notification = Notification(id="n1", topic_arn=topic.arn, timestamp_ms=NOW_MS, texts={"default": "x" * 20_000})
    await backend.notifications.put(notification, 3, NOW_MS + 86_400_000)
    for n in range(450):
        one = replace(notification, id=f"m{n}", texts={"default": str(n)}, timestamp_ms=NOW_MS + n * 1_000)
        archived = ArchivedMessage(one.timestamp_ms, f"{one.timestamp_ms:014d} {one.id}", END_MS, one)
        await backend.archives.append("a1", [archived])
    replay = Replay(id="r1", topic_arn=topic.arn, archive_id="a1", subscription_arn=f"{topic.arn}:11111111", policy="",
                    start_ms=NOW_MS, set_ms=NOW_MS, status="In progress", claimed="5", sent="4")  # fmt: skip
    await backend.replays.put(replay)
    item = OutboxItem(id=item_id(NOW_MS, "m", "+49"), at_ms=NOW_MS, account=account, region=REGION, protocol="sms",
                      destination="+49", message_id="m")  # fmt: skip
    await backend.outbox.put(item)


async def _fill_phones(backend: Backend, account: str) -> None:
    application = PlatformApplication(id="a" * 8, account=account, region=REGION, platform="GCM", name="app",
                                      created_ms=1, secrets={"PlatformCredential": "c"})  # fmt: skip
    await backend.platforms.create(application)
    device = MobileEndpoint(id="d" * 8, application_arn=application.arn, application_id=application.id, created_ms=1,
                            attributes={"Token": "tok", "Enabled": "true"})  # fmt: skip
    await backend.mobile_endpoints.create(device)
    await backend.sms.set_attributes(account, REGION, {"DefaultSenderID": "me"})
    for n in range(450):
        await backend.sms.opt_out(account, f"+4912345{n:03}")
    await backend.sms.put_sandbox_number(SandboxNumber(account=account, region=REGION, number="+4912345679",
                                                       state=NumberState.VERIFIED), 0)  # fmt: skip


async def rows_of(settings: Settings) -> dict[str, list[Any]]:
    """The compared rows of a data directory, by kind."""
    found: dict[str, list[Any]] = {}
    async with open_embedded_side(settings) as side:
        for kind in KINDS:
            rows = [kind.compared(row) async for page in side.read(kind) for row in page]
            found[kind.name] = sorted(rows, key=repr)
    return found


async def to_cluster(directory: Path, place: CassandraAddress) -> run.Moved:
    return await run.migrate(Places(directory, cluster(directory.parent, place), to_cluster=True), begin, quiet)


async def to_directory(directory: Path, place: CassandraAddress) -> run.Moved:
    return await run.migrate(Places(directory, cluster(directory.parent, place), to_cluster=False), begin, quiet)


async def test_each_kind_goes_to_a_cluster_and_back(
    tmp_path: Path, cassandra: Cassandra, cassandra_address: CassandraAddress
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with opened(embedded(first)) as backend:
        await fill(backend)
    before = await rows_of(embedded(first))
    assert [name for name, rows in before.items() if not rows] == ["expired messages to audit"]
    there = await to_cluster(first, cassandra_address)
    assert there.records == {name: len(rows) for name, rows in before.items()}
    back = await to_directory(second, cassandra_address)
    assert back.records == there.records
    assert await rows_of(embedded(second)) == before


@pytest.mark.usefixtures("cassandra")
async def test_a_statement_of_a_process_that_was_cut_off_is_moved(
    tmp_path: Path, source: Path, cassandra_address: CassandraAddress, late_statements: Late
) -> None:
    """It was sent before the process's row ended, and takes effect when the move has seen no living process."""
    await to_cluster(source, cassandra_address)
    async with open_cluster_backend(cluster(source.parent, cassandra_address), moving=True) as backend:
        late_statements.append(lambda: backend.queues.create(queue_named("late")))
        await to_directory(tmp_path / "second", cassandra_address)
    async with opened(embedded(tmp_path / "second")) as backend:
        assert await backend.queues.get(queue_named("late").key) is not None


# -- marks and refusals ------------------------------------------------------------------------------------------------


@pytest.fixture
async def source(tmp_path: Path) -> Path:
    """A data directory with a queue."""
    directory = tmp_path / "first"
    async with opened(embedded(directory)) as backend:
        await backend.accounts.create(NOW_MS)
        await backend.queues.create(queue_named("q"))
    return directory


def queue_named(name: str, engine: str = "embedded") -> Queue:
    return Queue(id=name.encode().hex().ljust(32, "0"), account="123456789012", region=REGION, name=name, engine=engine,
                 created_ms=1, modified_ms=2)  # fmt: skip


async def refused(settings: Settings) -> str:
    """The refusal of a service that starts on a data directory or a keyspace."""
    with pytest.raises(StartError) as error:
        if settings.store == "embedded":
            async with opened(settings):
                pass
        else:
            async with open_cluster_backend(settings):
                pass
    return str(error.value)


@pytest.mark.usefixtures("cassandra")
async def test_the_source_serves_nobody_afterwards(source: Path, cassandra_address: CassandraAddress) -> None:
    await to_cluster(source, cassandra_address)
    assert f"was moved to keyspace {cassandra_address.keyspace}" in await refused(embedded(source))
    with pytest.raises(StartError, match="was moved to"):
        await to_cluster(source, cassandra_address)
    async with open_cluster_backend(cluster(source.parent, cassandra_address)) as backend:
        assert await backend.queues.get(queue_named("q").key) == queue_named("q", "cqs")


@pytest.mark.usefixtures("cassandra")
async def test_a_source_is_taken_back_and_its_copy_serves_nobody(
    source: Path, cassandra_address: CassandraAddress
) -> None:
    await to_cluster(source, cassandra_address)
    asked: list[str] = []
    places = Places(source, cluster(source.parent, cassandra_address), to_cluster=True)
    assert await run.reopen(places, asked.append) == (str(source), f"keyspace {cassandra_address.keyspace}")
    assert asked == [f"keyspace {cassandra_address.keyspace}"]
    assert "was left" in await refused(cluster(source.parent, cassandra_address))
    async with opened(embedded(source)) as backend:
        assert await backend.queues.get(queue_named("q").key) == queue_named("q")
    with pytest.raises(StartError, match="nothing was moved from it"):
        await run.reopen(places, asked.append)
    with pytest.raises(StartError, match="was left"):
        await to_cluster(source, cassandra_address)


async def test_a_refused_question_changes_nothing(
    source: Path, cassandra: Cassandra, cassandra_address: CassandraAddress
) -> None:
    """Neither store, nor the directories beside them; an empty one stays."""

    def refuse(_messages: int, _move: object) -> None:
        raise LookupError

    (source.parent / "empty").mkdir()
    files = sorted(source.parent.rglob("*"))
    places = Places(source, cluster(source.parent, cassandra_address), to_cluster=True)
    with pytest.raises(LookupError):
        await run.migrate(places, refuse, quiet)
    assert await first_row(cassandra) == ""
    for name in ("new", "empty"):
        places = Places(source.parent / name, cluster(source.parent, cassandra_address), to_cluster=False)
        with pytest.raises(LookupError):
            await run.migrate(places, refuse, quiet)
    assert await first_row(cassandra) == ""
    assert sorted(source.parent.rglob("*")) == files
    async with opened(embedded(source)):
        pass


@pytest.mark.usefixtures("cassandra")
async def test_a_run_does_not_count_the_time_of_its_question(
    source: Path, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def ask(_messages: int, _move: object) -> None:
        now_s[0] += 1_000

    places = Places(source, cluster(source.parent, cassandra_address), to_cluster=True)
    assert (await run.migrate(places, ask, quiet)).seconds == 0


async def first_row(cassandra: Cassandra) -> str:
    """A table of the keyspace that has a row."""
    tables = [table for table in table_names() if await cassandra.run_schema(f"SELECT * FROM {table} LIMIT 1")]
    return next(iter(tables), "")


@pytest.mark.usefixtures("cassandra")
async def test_what_is_refused_before_anything_changes(
    tmp_path: Path, source: Path, cassandra_address: CassandraAddress
) -> None:
    settings = cluster(tmp_path, cassandra_address)
    async with open_cluster_backend(settings) as backend:
        with pytest.raises(StartError, match="processes of the cluster live"):
            await to_cluster(source, cassandra_address)
        await backend.queues.create(queue_named("there", "bdqs"))
    with pytest.raises(StartError, match="has rows in the table queues: a move needs an empty target"):
        await to_cluster(source, cassandra_address)
    with pytest.raises(StartError, match=r"cannot hold the queues arn:aws:sqs:.*:there \(bdqs\)"):
        await to_directory(tmp_path / "second", cassandra_address)
    with pytest.raises(StartError, match=r"first has store\.db: a move needs an empty target"):
        await to_directory(source, cassandra_address)
    async with opened(embedded(source)):
        with pytest.raises(StartError, match="is in use by another cns"):
            await to_cluster(source, cassandra_address)
    async with open_cluster_backend(settings), opened(embedded(source)):
        pass  # both start: nothing is marked


async def test_another_master_key_is_refused(tmp_path: Path, source: Path, cassandra_address: CassandraAddress) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "master.key").write_text("another")
    (source / "master.key").write_text(KEY)
    settings = cluster(tmp_path, cassandra_address).model_copy(update={"master_key": ""})
    with pytest.raises(StartError, match="is another master key than the source's"):
        await run.migrate(Places(source, settings, to_cluster=True), begin, quiet)


async def test_a_stale_run_cannot_end(tmp_path: Path) -> None:
    """It goes on after the source was taken back."""
    source, target = (Store(name, FileMoveMarks(tmp_path / name)) for name in ("source", "target"))
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    stale = await find_move(source, target)
    await stale.begin(1)
    await stale.arrive(1)
    await take_back(source, target, lambda _: None, has_content=True)
    with pytest.raises(StartError, match="is not of this run any more"):
        await stale.close_source()
    with pytest.raises(StartError, match="was left"):
        await find_move(source, target)


async def test_of_two_that_go_on_with_one_run_one_ends(tmp_path: Path) -> None:
    """On two machines, whose directories have the same name and different locks."""
    stores = [Store(name, FileMoveMarks(tmp_path / name)) for name in ("source", "target")]
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    first = await find_move(*stores)
    await first.begin(1)
    await first.arrive(1)
    second = await find_move(*stores)
    await first.close_source()
    with pytest.raises(StartError, match="another `cns migrate` changes the mark of source"):
        await second.close_source()


@pytest.mark.usefixtures("cassandra")
async def test_a_target_that_was_filled_during_the_question_is_kept(
    tmp_path: Path, source: Path, cassandra_address: CassandraAddress
) -> None:
    """Another run ends meanwhile: what it moved must not be cleared."""
    second = tmp_path / "second"
    async with opened(embedded(second)) as backend:
        await backend.queues.create(queue_named("other"))

    def ask(_messages: int, _move: object) -> None:
        with ThreadPoolExecutor() as threads:
            threads.submit(asyncio.run, to_cluster(second, cassandra_address)).result()

    settings = cluster(tmp_path, cassandra_address)
    with pytest.raises(StartError, match="has rows in the table queues: a move needs an empty target"):
        await run.migrate(Places(source, settings, to_cluster=True), ask, quiet)
    async with opened(embedded(source)), open_cluster_backend(settings) as backend:
        assert await backend.queues.get(queue_named("other").key) == queue_named("other", "cqs")


async def test_a_target_that_was_emptied_gets_all_records_again(
    source: Path, cassandra: Cassandra, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stops after the records; then the keyspace is made again, and the run goes on."""

    async def stop(*_: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(run, "copy_queues", stop)
        with pytest.raises(StartError, match=r"the move to .* stopped"):
            await to_cluster(source, cassandra_address)
    for table in table_names():
        await cassandra.run_schema(f"TRUNCATE {table}")
    await to_cluster(source, cassandra_address)
    async with open_cluster_backend(cluster(source.parent, cassandra_address)) as backend:
        assert await backend.queues.get(queue_named("q").key) == queue_named("q", "cqs")


@pytest.mark.usefixtures("cassandra")
async def test_a_full_disk_is_said_and_the_run_goes_on(
    source: Path, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(_: Places) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Places, "copy_files", fill_up)
        with pytest.raises(StartError, match="stopped: No space left on device") as error:
            await to_cluster(source, cassandra_address)
    assert error.value.exit_code == EXIT_DATA_FULL
    await to_cluster(source, cassandra_address)


@pytest.mark.usefixtures("cassandra")
async def test_an_engine_removes_nothing_while_it_is_copied(
    tmp_path: Path, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What expired after the list of expired messages was copied would be in neither store."""
    begun: Counter[str] = Counter()

    async def repeat(step: Callable[[], object], interval_s: float) -> None:
        begun[f"{step.__qualname__} {interval_s}"] += 1

    monkeypatch.setattr(engine_module, "repeat", repeat)
    settings = cluster(tmp_path, cassandra_address)
    async with open_cluster_backend(settings, moving=True):
        await asyncio.sleep(0)
    moving = begun.copy()
    async with open_cluster_backend(settings):
        await asyncio.sleep(0)
    left = [name.split()[1] for name in begun - moving - moving]
    assert sorted(left) == sorted(map(str, (MAINTENANCE_INTERVAL_S, RENEW_INTERVAL_S, ROUND_INTERVAL_S)))


async def test_a_process_that_was_suspended_during_a_move_serves_nobody(
    tmp_path: Path, cassandra: Cassandra, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move did not wait for it: its lease had ended."""
    machine, marks = MachineClocks(), CassandraMoveMarks(cassandra)
    mark = MoveMark(run="r", state="moved", other="data", at_ms=1)
    monkeypatch.setattr(cluster_module, "Clock", machine.clock)
    monkeypatch.setattr(engine_module, "repeat", idle)
    async with open_cluster_backend(cluster(tmp_path, cassandra_address)) as backend:
        renew = cast("ClusterEngine", backend.engines["cqs"]).work.renew
        assert await marks.swap(None, mark)
        machine.run(LAPSED_MS * 1_000_000)
        with pytest.raises(StoreUnavailable, match="was stopped or cut off"):
            await backend.queues.get(queue_named("q").key)
        with pytest.raises(StartError, match="was moved to data"):
            await renew()
        with pytest.raises(StoreUnavailable, match="was stopped or cut off"):
            await backend.queues.get(queue_named("q").key)
        assert await marks.swap(mark, None)
        machine.run(RENEW_INTERVAL_MS * 1_000_000)
        await renew()
        assert await backend.queues.get(queue_named("q").key) is None


async def test_a_process_that_joins_late_sees_a_move_that_began_meanwhile(
    tmp_path: Path, cassandra: Cassandra, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first renewal failed; the next one comes after it has read that there is no mark."""
    marks, steps, looks = CassandraMoveMarks(cassandra), [], []

    async def keep(step: Callable[[], Any], _interval_s: float) -> None:
        steps.append(step)

    async def look(*of: Any) -> None:
        await check_unmoved(*of)
        looks.append(of)
        if len(looks) == 2:
            assert await marks.swap(None, MoveMark(run="r", state="leaving", other="data", at_ms=1))
            (renew,) = [step for step in steps if step.__name__ == "renew"]
            with suppress(StartError):
                await renew()

    monkeypatch.setattr(BackgroundWork, "start", nothing)
    monkeypatch.setattr(engine_module, "repeat", keep)
    monkeypatch.setattr(cluster_module, "check_unmoved", look)
    with pytest.raises(StoreUnavailable, match="was stopped or cut off"):
        async with open_cluster_backend(cluster(tmp_path, cassandra_address)) as backend:
            await backend.queues.get(queue_named("q").key)


async def nothing(_: object) -> None:
    """The first renewal fails."""


async def idle(_step: object, _interval_s: float) -> None:
    """The test calls the steps."""


async def test_a_job_queue_that_cannot_be_named_ends_the_run(tmp_path: Path) -> None:
    class Odd(NamedTuple):
        engine: str = "cqs"

        async def job_queues(self) -> list[str]:
            return ["no/name"]

        async def read(self, _: object) -> AsyncIterator[list[Any]]:
            yield []

    side = cast("Side", Odd())
    with pytest.raises(StartError, match="no queue can be named cns/no/name, which has messages"):
        await copy_queues(side, side, Progress(tmp_path, "r", arrived=False), quiet)


async def test_a_record_that_the_target_refuses_ends_the_run(source: Path) -> None:
    async with open_embedded_side(embedded(source)) as side:
        with pytest.raises(StartError, match=r"the target refuses arn:aws:sqs:.*:q;"):
            await side.write(QUEUES, [(replace(queue_named("q"), created_ms=5),)])


# -- random contents ---------------------------------------------------------------------------------------------------


class SomeQueue(NamedTuple):
    """Messages are (group or tenant, delay in ms, whether it is sent a second time)."""

    fifo: bool
    messages: list[tuple[str, int, bool]]
    received: int
    job: bool


SOME_QUEUES = st.builds(
    SomeQueue,
    fifo=st.booleans(),
    messages=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0, 600_000]), st.booleans()), max_size=12),
    received=st.integers(0, 3),
    job=st.booleans(),
)
SOME_SUBSCRIPTIONS = st.lists(st.tuples(st.sampled_from(list(SubscriptionState)), st.booleans()), max_size=5)


@settings(
    max_examples=examples(5), database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)
@given(queues=st.lists(SOME_QUEUES, max_size=4), topics=st.lists(SOME_SUBSCRIPTIONS, max_size=3))
def test_random_contents_go_to_a_cluster_and_back(
    tmp_path_factory: pytest.TempPathFactory,
    cassandra_address: CassandraAddress,
    queues: list[SomeQueue],
    topics: list[list[tuple[SubscriptionState, bool]]],
) -> None:
    directory = tmp_path_factory.mktemp("random")
    first, second = directory / "first", directory / "second"

    async def there_and_back() -> None:
        async with emptied(cassandra_address):
            async with opened(embedded(first)) as backend:
                made = [await _some_queue(backend, n, one) for n, one in enumerate(queues)]
                for n, some in enumerate(topics):
                    await _some_topic(backend, n, some)
                now_ms = backend.clock.now_ms()
            before, messages = await rows_of(embedded(first)), await messages_of(embedded(first), made, now_ms)
            await to_cluster(first, cassandra_address)
            await to_directory(second, cassandra_address)
        assert await rows_of(embedded(second)) == before
        assert await messages_of(embedded(second), made, now_ms) == messages

    asyncio.run(there_and_back())


async def _some_queue(backend: Backend, n: int, one: SomeQueue) -> Queue:
    name = f"q{n}" + (".fifo" if one.fifo else "")
    queue = internal_queue(internal_key(name), "embedded") if one.job else queue_named(name)
    assert queue is not None
    if not one.job:
        queue = replace(queue, attributes={"FifoQueue": "true"} if one.fifo else {})
        await backend.queues.create(queue)
    engine, now_ms = backend.engine, backend.clock.now_ms()
    q = view_of(queue, engine, b"").ref
    for number, (group, delay_ms, again) in enumerate(one.messages):
        dedup = str(number) if one.fifo else ""
        for repeat in range(1 + again):
            sent = Entry(f"{n}-{number}-{repeat}", b"body", now_ms, now_ms + delay_ms, group, dedup)
            await engine.send(q, [sent], now_ms)
    for _ in range(one.received):
        await engine.receive(q, 1, now_ms + 30_000, now_ms)
    return queue


async def _some_topic(backend: Backend, n: int, some: list[tuple[SubscriptionState, bool]]) -> None:
    topic = Topic(id=f"{n}" * 32, account="123456789012", region=REGION, name=f"t{n}", created_ms=n)
    await backend.topics.create(topic)
    for number, (state, filtered) in enumerate(some):
        made = Subscription(
            id=f"{n}{number}" * 4, topic_arn=topic.arn, topic_id=topic.id, owner=topic.account, principal="p",
            protocol="sqs", endpoint=f"e{number}", state=state, created_ms=1, expires_ms=END_MS * (state == 0),
            attributes={"FilterPolicy": '{"a":["b"]}'} if filtered else {},
        )  # fmt: skip
        await backend.subscriptions.create(made, None)
    counts = await backend.subscriptions.counts(topic.arn)
    assert counts.pending + counts.confirmed + counts.removed == len(some)


async def messages_of(where: Settings, queues: list[Queue], now_ms: int) -> list[list[tuple[Any, ...]]]:
    """Messages by queue, without their sequence numbers; those of tenants that are in flight as if visible."""
    found: list[list[tuple[Any, ...]]] = []
    async with open_embedded_side(where) as side:
        transfer = side.backend.engines["embedded"].transfer  # type: ignore[attr-defined]  # a movable engine
        for queue in queues:
            pages = transfer.messages(view_of(queue, side.backend.engine, b"").ref)
            rows = [
                (one.id, one.body, one.born_at_ms, hidden_until(one, queue, now_ms), one.deliveries, one.group)
                async for page in pages
                for one in page
            ]
            found.append(rows if queue.fifo else sorted(rows))
    return found


def hidden_until(one: MovedMessage, queue: Queue, now_ms: int) -> int:
    """0 for a visible message."""
    released = one.deliveries and queue.account != INTERNAL_ACCOUNT
    return one.visible_at_ms if one.visible_at_ms > now_ms and not released else 0
