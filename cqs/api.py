"""The SQS API as a table from action name to operation: every action that this service answers.

`extensions` is the table of the actions that SQS does not have. Only CNS may call them.
"""

from __future__ import annotations

from functools import partial

from cns_common.aws.call import Operation
from cqs.authorization import QueueAccess
from cqs.localstack.options import OVERRIDDEN_BOUNDS, LocalStackOptions, with_overrides
from cqs.operations.attributes import AttributeOperations
from cqs.operations.batches import BatchOperations
from cqs.operations.deliver import DeliverOperations
from cqs.operations.messages import MessageOperations
from cqs.operations.moves import MoveOperations
from cqs.operations.permissions import QueuePermissionOperations
from cqs.operations.queues import QueueOperations
from cqs.operations.settle import SettleOperations
from cqs.operations.tags import QueueTagOperations
from cqs.queues.permissions import GRANTABLE
from cqs.service import QueueService
from cqs.topic_sender import TopicSender

ANONYMOUS = (GRANTABLE - {"*"}) | {"ChangeMessageVisibilityBatch", "DeleteMessageBatch", "SendMessageBatch"}
"""Actions that a queue's policy may allow to everyone, unsigned callers included."""

_NO_OPTIONS = LocalStackOptions()


def operations(service: QueueService, options: LocalStackOptions = _NO_OPTIONS) -> dict[str, Operation]:
    """Any other action is answered as an unknown operation."""
    access = QueueAccess(service.cache, service.clock, options.address)
    queues = QueueOperations(access, service.queues, options.write_url)
    attributes = AttributeOperations(access, service.queues)
    within = partial(MessageOperations, access, service.sender, service.receiver, service.in_flight)
    messages = within()
    receive_message: Operation = messages.receive_message
    if options.receive_overrides:
        receive_message = with_overrides(receive_message, within(OVERRIDDEN_BOUNDS).receive_message)
    batches = BatchOperations(access, service.sender, service.in_flight)
    tags = QueueTagOperations(access, service.queues)
    permissions = QueuePermissionOperations(access, service.queues)
    moves = MoveOperations(access, service.move_tasks)
    return {
        "AddPermission": permissions.add_permission,
        "CancelMessageMoveTask": moves.cancel_message_move_task,
        "ChangeMessageVisibility": messages.change_message_visibility,
        "ChangeMessageVisibilityBatch": batches.change_message_visibility_batch,
        "CreateQueue": queues.create_queue,
        "DeleteMessage": messages.delete_message,
        "DeleteMessageBatch": batches.delete_message_batch,
        "DeleteQueue": queues.delete_queue,
        "GetQueueAttributes": attributes.get_queue_attributes,
        "GetQueueUrl": queues.get_queue_url,
        "ListDeadLetterSourceQueues": queues.list_dead_letter_source_queues,
        "ListMessageMoveTasks": moves.list_message_move_tasks,
        "ListQueues": queues.list_queues,
        "ListQueueTags": tags.list_queue_tags,
        "PurgeQueue": queues.purge_queue,
        "ReceiveMessage": receive_message,
        "RemovePermission": permissions.remove_permission,
        "SendMessage": messages.send_message,
        "SendMessageBatch": batches.send_message_batch,
        "SetQueueAttributes": attributes.set_queue_attributes,
        "StartMessageMoveTask": moves.start_message_move_task,
        "TagQueue": tags.tag_queue,
        "UntagQueue": tags.untag_queue,
    }


def extensions(service: QueueService) -> dict[str, Operation]:
    """For the account `cns` only. `cqs.internal_api` has their request and response shapes."""
    return {
        "Deliver": DeliverOperations(TopicSender(service)).deliver,
        "Settle": SettleOperations(service.cache, service.clock).settle,
    }
