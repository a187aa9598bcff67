"""The kinds of records that are moved, and how each is read, written and compared in both forms.

A row of a kind has the same columns in both forms. Most are records, written by the store's own methods, which enter
them into their indices and counts; the others have no such method and are written by statements.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import apsw
import msgspec
from msgspec.structs import replace

from cns.archives.model import SKEW_MS_MAX
from cns.archives.replay import Replay
from cns.delivery.outbox import OutboxItem
from cns.notification import Notification
from cns.push.model import MobileEndpoint
from cns.sms.numbers import SandboxNumber
from cns.stores.cassandra import mobile_schema, schema
from cns.subscriptions.subscription import Subscription
from cns.topics.topic import Topic
from cns_backend.backend import Backend
from cns_backend.transfer.side import Kind, PutRow, Row, RunRow, Side
from cns_common.arn import parse_arn
from cns_common.aws.auth.owners import folded_name
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cqs.queues.model import Queue
from cqs.redrive.task import MoveTask

SESSION_MS = 13 * 3_600_000
"""An ended session is remembered for this long where its own end is unknown: longer than any session lasts."""
ARCHIVE_PAGE = 200
_LATEST_MS = 2**53


def decoded(kind: type) -> Callable[[Row], Row]:
    decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(kind).decode
    return lambda row: (decode(row[0]), *row[1:])


def _sql(text: str) -> PutRow:
    return lambda connection, row: connection.execute(text, row)


def _cql(text: str) -> RunRow:
    statement = Statement(text)
    return lambda cassandra, row: cassandra.run(statement, *row)


def _first(row: Row) -> str:
    return str(row[0])


def _nothing(_: Row) -> str:
    return ""


async def _stored(done: Awaitable[object], wanted: object, what: str) -> None:
    if await done != wanted:
        raise StartError(f"the target refuses {what}; the source is as it was", EXIT_DATA_UNUSABLE)


# -- accounts ----------------------------------------------------------------------------------------------------------

_ACCOUNT = "account, created_ms, key_id, sealed, key_created_ms, owner_name, password, password_ms"
_WRITE_ACCOUNT = Statement(f"INSERT INTO accounts(shard, {_ACCOUNT}) VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?)")
_WRITE_NAME = Statement("INSERT INTO account_names(folded, account) VALUES (?, ?)")


def _insert_account(connection: apsw.Connection, row: Row) -> None:
    account, created_ms, key_id, sealed, key_created_ms, name, password, password_ms = row
    connection.execute("INSERT INTO access_keys VALUES (?, ?, ?, ?)", (key_id, account, sealed, key_created_ms))
    if account == INTERNAL_ACCOUNT:
        return  # its key has a row and the account has none
    connection.execute("INSERT INTO accounts VALUES (?, ?)", (account, created_ms))
    if name or password or password_ms:
        owner = (account, name, password, password_ms, folded_name(name) if name else "")
        connection.execute(
            "INSERT INTO account_owners(account, name, sealed, password_ms, folded) VALUES (?,?,?,?,?)", owner
        )


async def _run_account(cassandra: Cassandra, row: Row) -> None:
    await cassandra.run(_WRITE_ACCOUNT, *row)
    if row[5]:
        await cassandra.run(_WRITE_NAME, folded_name(row[5]), row[0])


def _plain_account(row: Row) -> Row:
    *key, name, password, password_ms = row
    return (*key, name or "", bytes(password or b""), password_ms or 0)


_END_SESSION = Statement(f"INSERT INTO ended_sessions(id) VALUES (?) USING TTL {2 * SESSION_MS // 1000}")


async def _live_session(_: Cassandra, backend: Backend, row: Row) -> Row:
    return (*row, backend.clock.now_ms() + SESSION_MS)


# -- queues ------------------------------------------------------------------------------------------------------------


def _neutral(row: Row) -> object:
    queue: Queue = row[0]
    return replace(queue, engine="")


async def _put_queue(side: Side, row: Row) -> None:
    queue = replace(row[0], engine=side.engine)
    await _stored(side.backend.queues.create(queue), queue, queue.arn)


async def _live_deletion(_: Cassandra, backend: Backend, row: Row) -> Row | None:
    """The mark of a deletion that did not take place is none."""
    account, region, name, queue_id, _at_ms = row
    there = await backend.queues.get((account, region, name))
    return None if there is not None and there.id == queue_id else row


_TASK_COLUMNS = "source, started_ms, id, version, record"
_WRITE_TASK = Statement(f"INSERT INTO move_tasks({_TASK_COLUMNS}) VALUES (?, ?, ?, ?, ?)")
_START_TASK = Statement("UPDATE move_tasks SET active = ? WHERE source = ? IF active = null", idempotent=False)
_ENTER_TASK = Statement("INSERT INTO active_moves(shard, source, id) VALUES (0, ?, ?)")


def _task_row(task: MoveTask) -> Row:
    return (task.source_arn, task.started_ms, task.id, task.version, msgspec.msgpack.encode(task))


def _insert_task(connection: apsw.Connection, row: Row) -> None:
    task: MoveTask = row[0]
    text = f"INSERT INTO move_tasks({_TASK_COLUMNS}, active) VALUES (?, ?, ?, ?, ?, ?)"
    connection.execute(text, (*_task_row(task), int(task.active)))


async def _run_task(cassandra: Cassandra, row: Row) -> None:
    task: MoveTask = row[0]
    if task.active:
        await cassandra.run(_ENTER_TASK, task.source_arn, task.id)
        await cassandra.run_conditional(_START_TASK, task.id, task.source_arn)
    await cassandra.run(_WRITE_TASK, *_task_row(task))


async def _live_task(_cassandra: Cassandra, _backend: Backend, row: Row) -> Row | None:
    return row if row[0] is not None else None  # a partition may have its static column only


# -- topics and subscriptions ------------------------------------------------------------------------------------------


async def _put_topic(side: Side, row: Row) -> None:
    await _stored(side.backend.topics.create(row[0]), row[0], row[0].arn)


async def _put_subscription(side: Side, row: Row) -> None:
    await _stored(side.backend.subscriptions.create(row[0], None), row[0], row[0].arn)


async def _live_subscription(_: Cassandra, backend: Backend, row: Row) -> Row | None:
    """A subscription of a deleted topic is not swept yet; one that does not hold its endpoint was never created."""
    subscription = msgspec.msgpack.decode(row[0], type=Subscription)
    topic = await backend.topics.get(subscription.topic_arn)
    holder = await backend.subscriptions.find_same_endpoint(subscription)
    gone = topic is None or topic.id != subscription.topic_id or holder is None or holder.id != subscription.id
    return None if gone else row


_REFERENCES = Statement("SELECT sum(change) FROM notification_references WHERE notification = ?")


async def _live_notification(cassandra: Cassandra, backend: Backend, row: Row) -> Row | None:
    """A notification, its number of references, and when it expires: earlier than its row."""
    record, left_s = row
    notification = msgspec.msgpack.decode(record, type=Notification)
    ((references,),) = await cassandra.run(_REFERENCES, notification.id)
    if (references or 0) <= 0:
        return None
    return (record, references, backend.clock.now_ms() + max((left_s or 0) - 86_400, 0) * 1000)


async def _put_notification(side: Side, row: Row) -> None:
    await side.backend.notifications.put(*row)


# -- archives ----------------------------------------------------------------------------------------------------------


async def _archived(side: Side) -> AsyncIterator[list[Row]]:
    """(archive, message) of the archives that topics have, each in the order of its keys."""
    async for topics in side.read(TOPICS):
        for (topic,) in topics:
            if topic.archive is None:
                continue
            archive_id, after, from_ms = topic.archive.id, "", 0
            while page := await side.backend.archives.page(archive_id, from_ms, _LATEST_MS, after, ARCHIVE_PAGE):
                yield [(archive_id, message) for message in page]
                after, from_ms = page[-1].key, max(page[-1].at_ms - SKEW_MS_MAX, 0)


async def _append(side: Side, row: Row) -> None:
    await side.backend.archives.append(row[0], [row[1]])


# -- mobile push and SMS -----------------------------------------------------------------------------------------------


async def _run_application(cassandra: Cassandra, row: Row) -> None:
    arn = parse_arn(row[0])
    assert arn is not None  # the store wrote it
    await cassandra.run(mobile_schema.ENTER_APPLICATION, arn.account, arn.region, row[0], row[1])
    await cassandra.run_conditional(mobile_schema.INSERT_APPLICATION, *row)


async def _live_device(_: Cassandra, backend: Backend, row: Row) -> Row | None:
    endpoint = msgspec.msgpack.decode(row[0], type=MobileEndpoint)
    application = await backend.platforms.get(endpoint.application_arn)
    gone = application is None or application.id != endpoint.application_id
    return None if gone or await backend.mobile_endpoints.token_taken(endpoint) else row


async def _put_device(side: Side, row: Row) -> None:
    await _stored(side.backend.mobile_endpoints.create(row[0]), row[0], row[0].arn)


async def _put_number(side: Side, row: Row) -> None:
    await _stored(side.backend.sms.put_sandbox_number(row[0], 0), True, row[0].number)


# -- the table ---------------------------------------------------------------------------------------------------------


def _of_first(row: Row) -> str:
    return str(row[0].account)


TOPICS = Kind("topics", "SELECT record FROM topics", _of_first, plain=decoded(Topic), put=_put_topic)
QUEUES = Kind("queues", "SELECT record FROM queues", _of_first, plain=decoded(Queue), put=_put_queue, compared=_neutral)
# fmt: off
KINDS: tuple[Kind, ...] = (
    Kind("accounts",
         "SELECT k.account, coalesce(a.created_ms, k.created_ms), k.key_id, k.sealed, k.created_ms, o.name, o.sealed,"
         " o.password_ms FROM access_keys k LEFT JOIN accounts a USING (account)"
         " LEFT JOIN account_owners o ON o.account = a.account",
         _first, cassandra=f"SELECT {_ACCOUNT} FROM accounts",
         plain=_plain_account, insert=_insert_account, run=_run_account),
    Kind("users", "SELECT account, name, version, record FROM account_users", _first,
         insert=_sql("INSERT INTO account_users VALUES (?, ?, ?, ?)"),
         run=_cql("INSERT INTO account_users(shard, account, name, version, record) VALUES (0, ?, ?, ?, ?)")),
    Kind("ended sessions", "SELECT id, until_ms FROM ended_sessions", _nothing,
         cassandra="SELECT id FROM ended_sessions", live=_live_session, compared=_first,
         insert=_sql("INSERT OR REPLACE INTO ended_sessions VALUES (?, ?)"),
         run=lambda cassandra, row: cassandra.run(_END_SESSION, row[0])),
    QUEUES,
    Kind("deleted queues", "SELECT account, region, name, id, deleted_ms FROM deleted_queues", _first,
         cassandra="SELECT account, region, name, id, deleted_ms FROM queue_deletions", live=_live_deletion,
         insert=_sql("INSERT INTO deleted_queues(account, region, name, id, deleted_ms) VALUES (?, ?, ?, ?, ?)"),
         run=_cql("INSERT INTO queue_deletions(account, region, name, id, deleted_ms) VALUES (?, ?, ?, ?, ?)")),
    Kind("move tasks", "SELECT record FROM move_tasks", lambda row: row[0].source_arn,
         live=_live_task, plain=decoded(MoveTask), insert=_insert_task, run=_run_task),
    TOPICS,
    Kind("subscriptions", "SELECT record FROM subscriptions WHERE topic IN (SELECT key FROM topics)",
         lambda row: row[0].topic_arn, cassandra="SELECT record FROM subscriptions", live=_live_subscription,
         plain=decoded(Subscription), put=_put_subscription),
    Kind("confirmation tokens", "SELECT token, subscription, expires_ms FROM subscription_tokens",
         lambda row: str(row[1]).rpartition(":")[0],
         cassandra="SELECT secret, subscription, expires_ms FROM subscription_tokens",
         insert=_sql("INSERT INTO subscription_tokens VALUES (?, ?, ?)"),
         run=lambda cassandra, row: cassandra.run(schema.INSERT_TOKEN, *row)),
    Kind("notifications", "SELECT record, refs, expires_ms FROM notifications JOIN notification_refs USING (id)",
         lambda row: row[0].topic_arn, cassandra="SELECT record, TTL(record) FROM notifications",
         live=_live_notification, plain=decoded(Notification), put=_put_notification,
         compared=lambda row: row[:2]),  # the expiry is derived from a time to live of whole seconds
    Kind("outbox items", "SELECT record FROM outbox", _of_first,
         plain=decoded(OutboxItem), put=lambda side, row: side.backend.outbox.put(row[0])),
    Kind("archived messages", "", _first, pages=_archived, put=_append),
    Kind("replays", "SELECT record FROM replays", lambda row: row[0].topic_arn,
         plain=decoded(Replay), put=lambda side, row: side.backend.replays.put(row[0])),
    Kind("platform applications", "SELECT arn, id, version, sealed FROM platform_applications",
         lambda row: str(row[0]).split(":")[4],
         insert=_sql("INSERT INTO platform_applications VALUES (?, ?, ?, ?)"), run=_run_application),
    Kind("mobile endpoints",
         "SELECT record FROM mobile_endpoints WHERE application IN (SELECT id FROM platform_applications)",
         lambda row: row[0].application_arn, cassandra="SELECT record FROM mobile_endpoints", live=_live_device,
         plain=decoded(MobileEndpoint), put=_put_device),
    Kind("SMS attributes", "SELECT account, region, name, value FROM sms_attributes", _first,
         insert=_sql("INSERT INTO sms_attributes VALUES (?, ?, ?, ?)"),
         run=lambda cassandra, row: cassandra.run(mobile_schema.SET_SMS_ATTRIBUTE, *row)),
    Kind("numbers that opted out", "SELECT account, number FROM opted_out_numbers", _first,
         put=lambda side, row: side.backend.sms.opt_out(*row)),
    Kind("sandbox numbers", "SELECT record FROM sandbox_numbers", _of_first,
         plain=decoded(SandboxNumber), put=_put_number),
    Kind("signing keys", "SELECT number, sealed, certificate, created_ms FROM signing_keys", _nothing,
         insert=_sql("INSERT INTO signing_keys VALUES (?, ?, ?, ?)"),
         run=_cql("INSERT INTO signing_keys(shard, number, sealed, certificate, created_ms) VALUES (0, ?, ?, ?, ?)")),
    Kind("pool sizes", "SELECT pool, worker, record FROM pool_sizes", _first,
         insert=_sql("INSERT INTO pool_sizes VALUES (?, ?, ?)"),
         run=_cql("INSERT INTO pool_sizes(shard, pool, worker, record) VALUES (0, ?, ?, ?)")),
    Kind("expired messages to audit", "SELECT at_ms, audit, id, grp FROM expired", lambda row: str(row[1]),
         cassandra="SELECT at_ms, audit, id, tenant FROM cqs_expired",
         insert=_sql("INSERT INTO expired VALUES (?, ?, ?, ?)"),
         run=_cql("INSERT INTO cqs_expired(one, at_ms, audit, id, tenant) VALUES (1, ?, ?, ?, ?)")),
)
# fmt: on
"""In the order in which they are moved: subscriptions need their topics, endpoints their applications."""
