"""CNS's own queues, in the reserved account. They need not be created, and no tenant can see them.

Their messages are jobs: opaque bytes, which only `Settle` sends and changes. A ReceiveMessage shows them as base64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.aws.protocol.scalars import write_blob
from cqs.engines.contract import Capabilities, Message, QueueRef
from cqs.limits import INTERNAL_DELAY_S_MAX, INTERNAL_MESSAGE_BYTES_MAX, INTERNAL_RETENTION_S
from cqs.queues.model import Body, Queue
from cqs.queues.names import QueueKey, is_fifo, is_queue_name

REGION = "internal"
ACTIONS = frozenset({"ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes", "GetQueueUrl"})
"""The SQS actions that internal queues allow: those that write neither a message body nor a queue record."""
_ATTRIBUTES: Mapping[str, str] = {
    "MaximumMessageSize": str(INTERNAL_MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": str(INTERNAL_RETENTION_S),
}


def internal_key(name: str) -> QueueKey:
    return (INTERNAL_ACCOUNT, REGION, name)


def internal_ref(name: str) -> QueueRef:
    """The reference of an internal queue, the same in every process."""
    return QueueRef(f"{INTERNAL_ACCOUNT}/{name}", is_fifo(name), INTERNAL_RETENTION_S * 1000)


def check_internal_engine(name: str, capabilities: Capabilities) -> None:
    """Raise ValueError for an engine that cannot have the internal queues: they need every capability except
    `atomic_settle`."""
    if not (
        capabilities.fifo and capabilities.update_body and capabilities.max_delay_ms >= INTERNAL_DELAY_S_MAX * 1000
    ):
        raise ValueError(f"the engine {name} cannot have the internal queues")


def internal_queue(key: QueueKey, engine: str) -> Queue | None:
    """The record of an internal queue, which no store has; None if the key cannot be one."""
    _, region, name = key
    if region != REGION or not is_queue_name(name):
        return None
    ref = internal_ref(name)
    attributes = {**_ATTRIBUTES, "FifoQueue": "true"} if ref.fifo else dict(_ATTRIBUTES)
    return Queue(
        id=ref.id,
        account=INTERNAL_ACCOUNT,
        region=REGION,
        name=name,
        engine=engine,
        created_ms=0,
        modified_ms=0,
        attributes=attributes,
        version=ref.version,
    )


def job_body(message: Message) -> Body:
    """A job's bytes as an SQS message body."""
    text = write_blob(message.body)
    return Body(text, hashlib.md5(text.encode()).hexdigest(), INTERNAL_ACCOUNT, message.born_at_ms)
