"""Messages in flight: visibility timeouts, old receipt handles, and invalid ones."""

from __future__ import annotations

import pytest

from tests.integration.cqs.sqs import Sqs
from tests.integration.cqs.sqs_wire import Refusal, Wire, Wires, invalid, missing, modelled

spec = pytest.mark.spec


def expired(handle: str) -> Refusal:
    return invalid("ReceiptHandle", handle, "The receipt handle has expired.")


def unavailable(handle: str) -> Refusal:
    reason = "Message does not exist or is not available for visibility timeout change."
    return invalid("ReceiptHandle", handle, reason)


def not_a_handle(handle: str) -> Refusal:
    return modelled(
        "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.', 404
    )


async def delete(wire: Wire, url: str, handle: str) -> None:
    assert await wire("DeleteMessage", QueueUrl=url, ReceiptHandle=handle) == {}


async def hide(wire: Wire, url: str, handle: str, timeout_s: int) -> None:
    answer = await wire("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=timeout_s)
    assert answer == {}


async def held(sqs: Sqs, url: str, **members: int) -> str:
    """The receipt handle of the next message."""
    (message,) = await sqs.receive(url, 1, **members)
    handle: str = message["ReceiptHandle"]
    return handle


# -- handles ----------------------------------------------------------------------------------------------------------


@spec("handle.length")
async def test_the_length_of_a_handle(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo")
    await sqs.send(url, MessageGroupId="g" * 128, MessageDeduplicationId="d" * 128)
    (message,) = await wire.receive(url)
    assert len(message["ReceiptHandle"]) <= 1_024


@pytest.mark.parametrize("handle", ["garbage", "not base64!", "A" * 2_000])
@spec("handle.never-issued")
async def test_a_handle_of_nothing(sqs: Sqs, wires: Wires, handle: str) -> None:
    url = await sqs.queue()
    await wires.refuses(not_a_handle(handle), "DeleteMessage", QueueUrl=url, ReceiptHandle=handle)
    members = {"ReceiptHandle": handle, "VisibilityTimeout": 1}
    await wires.refuses(not_a_handle(handle), "ChangeMessageVisibility", QueueUrl=url, **members)


@spec("handle.other-queue")
async def test_a_handle_of_another_queue(sqs: Sqs, wire: Wire) -> None:
    mine, theirs = await sqs.queue("mine"), await sqs.queue("theirs")
    await sqs.send(theirs)
    handle = await held(sqs, theirs)
    refusal = modelled("ReceiptHandleIsInvalid", f'The receipt handle "{handle}" is not valid for this queue.', 404)
    await wire.refuses(refusal, "DeleteMessage", QueueUrl=mine, ReceiptHandle=handle)
    members = {"ReceiptHandle": handle, "VisibilityTimeout": 1}
    await wire.refuses(refusal, "ChangeMessageVisibility", QueueUrl=mine, **members)
    answer = await wire("DeleteMessageBatch", QueueUrl=mine, Entries=[{"Id": "a", "ReceiptHandle": handle}])
    assert [(one["Code"], one["Message"]) for one in answer["Failed"]] == [(refusal.code, refusal.text)]
    assert await sqs.counts(theirs) == (0, 1, 0)


@spec("handle.deleted-twice", "handle.deleted-change")
async def test_after_a_delete(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    handle = await held(sqs, url)
    await delete(wire, url, handle)
    await delete(wire, url, handle)
    assert await sqs.counts(url) == (0, 0, 0)
    members = {"ReceiptHandle": handle, "VisibilityTimeout": 1}
    await wire.refuses(unavailable(handle), "ChangeMessageVisibility", QueueUrl=url, **members)
    answer = await wire("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=[{"Id": "a", **members}])
    text = "Message does not exist or is not available for visibility timeout change"
    assert [(one["Code"], one["Message"]) for one in answer["Failed"]] == [("ReceiptHandleIsInvalid", text)]


@spec("handle.fifo-expired-delete", "handle.fifo-expired-change")
async def test_a_fifo_handle_ends_with_its_timeout(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue("q.fifo")
    await sqs.send(url, MessageGroupId="g", MessageDeduplicationId="d")
    old = await held(sqs, url)
    sqs.advance(31)
    new = ""
    for _ in range(2):  # before and after the next receive
        await wire.refuses(expired(old), "DeleteMessage", QueueUrl=url, ReceiptHandle=old)
        members = {"ReceiptHandle": old, "VisibilityTimeout": 1}
        await wire.refuses(expired(old), "ChangeMessageVisibility", QueueUrl=url, **members)
        failed = {"Id": "a", "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}
        failed["Message"] = "The receipt handle has expired"
        for action in ("DeleteMessageBatch", "ChangeMessageVisibilityBatch"):
            given = [{"Id": "a", **members}] if action.startswith("Change") else [{"Id": "a", "ReceiptHandle": old}]
            assert await wire(action, QueueUrl=url, Entries=given) == {"Failed": [failed]}
        new = new or await held(sqs, url)
    await delete(wire, url, new)
    await delete(wire, url, new)


@pytest.mark.parametrize("action", ["DeleteMessage", "ChangeMessageVisibility"])
@spec("handle.missing")
async def test_a_handle_is_required(sqs: Sqs, wires: Wires, action: str) -> None:
    url = await sqs.queue()
    await wires.refuses(missing("ReceiptHandle"), action, QueueUrl=url)
    await wires.refuses(missing("ReceiptHandle"), action, QueueUrl=url, ReceiptHandle="")


# -- visibility -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_s", [-1, 43_201])
@spec("visibility.range")
async def test_timeouts_refused(sqs: Sqs, wires: Wires, timeout_s: int) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    members = {"ReceiptHandle": await held(sqs, url), "VisibilityTimeout": timeout_s}
    refusal = invalid("VisibilityTimeout", timeout_s, "VisibilityTimeout must be an integer between 0 and 43200.")
    await wires.refuses(refusal, "ChangeMessageVisibility", QueueUrl=url, **members)


@spec("visibility.missing")
async def test_a_timeout_is_required(sqs: Sqs, wires: Wires) -> None:
    url = await sqs.queue()
    await wires.refuses(missing("VisibilityTimeout"), "ChangeMessageVisibility", QueueUrl=url, ReceiptHandle="x")


@spec("visibility.twelve-hours", "visibility.twelve-hours-soon-over")
async def test_twelve_hours_in_all(sqs: Sqs, wire: Wire) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    handle = await held(sqs, url)
    sqs.advance(0.002)
    for timeout_s in (43_200, 39_601):
        reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
        refusal = invalid("VisibilityTimeout", timeout_s, reason)
        members = {"ReceiptHandle": handle, "VisibilityTimeout": timeout_s}
        await wire.refuses(refusal, "ChangeMessageVisibility", QueueUrl=url, **members)
        await hide(wire, url, handle, timeout_s - 101)
        sqs.advance(3_600)
