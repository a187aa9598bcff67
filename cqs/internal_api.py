"""The request and response shapes of the extension actions, which botocore's model does not have.

The account `cns` calls them in AWS JSON 1.0. For all other accounts they are unknown operations.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from cns_common.aws.protocol.models import ServiceModel, compile_operation, load_service
from cns_common.aws.protocol.shapes import Kind, Member, Shape, Signature, read_signatures


@cache
def extended_model() -> ServiceModel:
    """The model of SQS with the extension actions."""
    sqs = load_service("sqs")
    ours = {signature.name: compile_operation("sqs", signature) for signature in (_settle(), _deliver())}
    return replace(sqs, operations={**sqs.operations, **ours})


def _settle() -> Signature:
    """Deletes, sends and changes of messages of internal queues, in one transaction if the engine has `atomic_settle`.

    `Queue` is a queue name. The results are in the order of the request and are the engine's outcomes. If a send is
    rejected, the result has no outcomes of deletes and changes. `InOrder` has the message id and sequence number of
    each send to a FIFO queue, or those of its original if it was a duplicate.
    """
    return Signature(
        name="Settle",
        input=_structure(
            "SettleRequest",
            Deletes=_list(_structure("SettleDelete", Queue=_STRING, ReceiptHandle=_STRING)),
            Sends=_list(
                _structure(
                    "SettleSend",
                    Queue=_STRING,
                    MessageId=_STRING,
                    Body=_BLOB,
                    Group=_STRING,
                    DelayMs=_LONG,
                    Dedup=_STRING,
                )
            ),
            Changes=_list(
                _structure("SettleChange", Queue=_STRING, ReceiptHandle=_STRING, VisibleInMs=_LONG, Body=_BLOB)
            ),
        ),
        output=_structure(
            "SettleResult",
            Deletes=_list(_STRING),
            Sends=_list(_STRING),
            Changes=_list(_STRING),
            InOrder=_list(
                _structure("SettleSent", MessageId=_STRING, SequenceNumber=_STRING, Duplicate=_scalar("boolean"))
            ),
        ),
    )


def _deliver() -> Signature:
    """Messages to tenants' queues. Each queue's policy is evaluated with the topic as the source.

    The members of an entry are those of SendMessage. Each entry has its own result: a message id, or an error of
    SendMessage. Each queue gets one topic's messages in the order of the entries.
    """
    attributes = _member_of("SendMessage", "MessageAttributes")
    return Signature(
        name="Deliver",
        input=_structure(
            "DeliverRequest",
            Entries=_list(
                _structure(
                    "DeliverEntry",
                    QueueArn=_STRING,
                    TopicArn=_STRING,
                    MessageBody=_STRING,
                    MessageAttributes=attributes,
                    MessageGroupId=_STRING,
                    MessageDeduplicationId=_STRING,
                    TraceHeader=_STRING,
                )
            ),
        ),
        output=_structure(
            "DeliverResult",
            Results=_list(_structure("DeliverResultEntry", MessageId=_STRING, Code=_STRING, Message=_STRING)),
        ),
    )


def _scalar(kind: Kind) -> Shape:
    return Shape(name=kind, kind=kind)


def _structure(name: str, **members: Shape) -> Shape:
    named = [Member(name=member, wire=member, shape=shape) for member, shape in members.items()]
    return Shape(name=name, kind="structure", members=tuple(named))


def _list(item: Shape) -> Shape:
    return Shape(name=f"{item.name}List", kind="list", members=(Member(name="member", wire="member", shape=item),))


def _member_of(operation: str, name: str) -> Shape:
    """The shape of a member of an operation's input, from botocore's model."""
    for signature in read_signatures("sqs"):
        if signature.name == operation:
            return next(member.shape for member in signature.input.members if member.name == name)
    raise LookupError(operation)


_STRING = _scalar("string")
_BLOB = _scalar("blob")
_LONG = _scalar("long")
