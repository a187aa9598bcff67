"""A queue as sends and receives see it: its record's text attributes, parsed once per version."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.aws.policy.evaluation import Policy
from cqs.engines.contract import Engine, QueueRef
from cqs.messages.receipt_handle import ReceiptHandles
from cqs.queues.attributes import AUDIT, settings_of
from cqs.queues.model import Queue
from cqs.queues.names import QueueKey
from cqs.queues.policies import read_policy
from cqs.queues.urls import key_of_arn
from cqs.redrive.policy import read_redrive_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    queue: Queue
    engine: Engine
    account: str
    arn: str
    internal: bool
    fifo: bool
    ref: QueueRef
    ref_without_redrive: QueueRef  # for receives while the dead-letter queue does not exist
    ref_for_handles: QueueRef
    """For DeleteMessage and ChangeMessageVisibility: on tenants' standard queues, handles of earlier deliveries are
    valid. Internal queues stay fenced: a worker whose lease ended cannot settle the job."""
    receipts: ReceiptHandles
    delay_ms: int
    delay_ms_max: int
    """The longest delay that the queue's engine has."""
    visibility_ms: int
    wait_ms: int
    bytes_max: int
    audit: bool
    dedup_by_content: bool
    dedup_by_group: bool
    dead_letter_key: QueueKey | None
    policy: Policy | None


def view_of(queue: Queue, engine: Engine, receipt_key: bytes) -> QueueView:
    settings = settings_of(queue)
    internal = queue.account == INTERNAL_ACCOUNT
    retention_ms = int(settings["MessageRetentionPeriod"]) * 1000
    target, max_receives = _redrive(queue, settings.get("RedrivePolicy"))
    policy = settings.get("Policy")
    audit = queue.arn if AUDIT in queue.attributes else ""
    options = tuple(sorted(queue.options.items()))
    ref = QueueRef(
        queue.id, queue.fifo, retention_ms, max_receives, audit=audit, options=options, version=queue.version
    )
    return QueueView(
        queue=queue,
        engine=engine,
        account=queue.account,
        arn=queue.arn,
        internal=internal,
        fifo=queue.fifo,
        ref=ref,
        ref_without_redrive=replace(ref, max_receives=0),
        ref_for_handles=replace(ref, older_handles=not (queue.fifo or internal)),
        receipts=ReceiptHandles(receipt_key, queue.id),
        delay_ms=int(settings["DelaySeconds"]) * 1000,
        delay_ms_max=engine.capabilities.max_delay_ms,
        visibility_ms=int(settings["VisibilityTimeout"]) * 1000,
        wait_ms=int(settings["ReceiveMessageWaitTimeSeconds"]) * 1000,
        bytes_max=int(settings["MaximumMessageSize"]),
        audit=bool(audit),
        dedup_by_content=settings.get("ContentBasedDeduplication") == "true",
        dedup_by_group=settings.get("DeduplicationScope") == "messageGroup",
        dead_letter_key=target,
        policy=read_policy(policy) if policy else None,
    )


def _redrive(queue: Queue, text: str | None) -> tuple[QueueKey | None, int]:
    """The dead-letter queue's key and maxReceiveCount. A queue that is its own target keeps its messages."""
    if not text:
        return None, 0
    policy = read_redrive_policy(text)
    target = key_of_arn(policy.deadLetterTargetArn)
    return (None, 0) if target == queue.key else (target, policy.maxReceiveCount)
