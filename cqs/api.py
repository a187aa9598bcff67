"""The SQS API as a table: action name → operation. It is the documentation of what this service answers.

`extensions` is a second table, of what SQS does not have and CNS alone may call.
"""

from __future__ import annotations

from common.aws.call import Operation
from cqs.access import Access
from cqs.on_behalf import OnBehalf
from cqs.operations.attributes import AttributeOperations
from cqs.operations.batches import BatchOperations
from cqs.operations.deliver import DeliverOperations
from cqs.operations.messages import MessageOperations
from cqs.operations.permissions import PermissionOperations
from cqs.operations.queues import QueueOperations
from cqs.operations.settle import SettleOperations
from cqs.operations.tags import TagOperations
from cqs.service import QueueService


def operations(service: QueueService) -> dict[str, Operation]:
    """Whatever is not here is answered as an unknown operation."""
    access = Access(service.cache, service.clock)
    queues = QueueOperations(access, service.queues)
    attributes = AttributeOperations(access, service.queues)
    messages = MessageOperations(access, service.sending, service.receiving, service.holding)
    batches = BatchOperations(access, service.sending, service.holding)
    tags = TagOperations(access, service.queues)
    permissions = PermissionOperations(access, service.queues)
    return {
        "AddPermission": permissions.add_permission,
        "ChangeMessageVisibility": messages.change_message_visibility,
        "ChangeMessageVisibilityBatch": batches.change_message_visibility_batch,
        "CreateQueue": queues.create_queue,
        "DeleteMessage": messages.delete_message,
        "DeleteMessageBatch": batches.delete_message_batch,
        "DeleteQueue": queues.delete_queue,
        "GetQueueAttributes": attributes.get_queue_attributes,
        "GetQueueUrl": queues.get_queue_url,
        "ListDeadLetterSourceQueues": queues.list_dead_letter_source_queues,
        "ListQueues": queues.list_queues,
        "ListQueueTags": tags.list_queue_tags,
        "PurgeQueue": queues.purge_queue,
        "ReceiveMessage": messages.receive_message,
        "RemovePermission": permissions.remove_permission,
        "SendMessage": messages.send_message,
        "SendMessageBatch": batches.send_message_batch,
        "SetQueueAttributes": attributes.set_queue_attributes,
        "TagQueue": tags.tag_queue,
        "UntagQueue": tags.untag_queue,
    }


def extensions(service: QueueService) -> dict[str, Operation]:
    """For the account `cns`; `cqs.extensions` has the shapes."""
    return {
        "Deliver": DeliverOperations(OnBehalf(service)).deliver,
        "Settle": SettleOperations(service.cache, service.clock).settle,
    }
