"""Messages held by their receivers: visibility, old handles, and handles of nothing."""

from __future__ import annotations

from tests.integration.sqs import Sqs, refused


async def test_visibility(sqs: Sqs) -> None:
    url = await sqs.queue(VisibilityTimeout="10")
    await sqs.send(url)
    (first,) = await sqs.receive(url, VisibilityTimeout=0)
    (second,) = await sqs.receive(url)
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    assert await sqs.counts(url) == (0, 1, 0)
    await sqs.hide(url, second, 60)
    sqs.advance(59)
    assert await sqs.receive(url) == []
    await sqs.hide(url, second, 0)
    (third,) = await sqs.receive(url)
    sqs.advance(11)
    await sqs.hide(url, third, 20)  # visible again, and still its latest handle
    assert await sqs.receive(url) == []


async def test_old_handle_deletes_until_the_next_receive(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url, "a")
    await sqs.send(url, "b")
    first, second = await sqs.receive(url)
    sqs.advance(31)
    await sqs.delete(url, first)
    (again,) = await sqs.receive(url)
    await sqs.delete(url, second)
    assert await sqs.counts(url) == (0, 1, 0)
    text = f"Value {second['ReceiptHandle']} for parameter ReceiptHandle is invalid. "
    text += "Reason: Message does not exist or is not available for visibility timeout change."
    assert await refused(sqs.hide(url, second, 1)) == ("InvalidParameterValue", text)
    await sqs.delete(url, again)
    assert (await refused(sqs.hide(url, again, 1)))[0] == "InvalidParameterValue"


async def test_twelve_hours_in_all(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs.send(url)
    (message,) = await sqs.receive(url, VisibilityTimeout=43_200)
    sqs.advance(3_600)
    await sqs.hide(url, message, 39_500)
    assert await refused(sqs.hide(url, message, 39_601)) == (
        "InvalidParameterValue",
        "Value 39601 for parameter VisibilityTimeout is invalid. "
        "Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
    )


async def test_handles_of_nothing_and_of_others(sqs: Sqs) -> None:
    mine, theirs = await sqs.queue("mine"), await sqs.queue("theirs")
    await sqs.send(theirs)
    (message,) = await sqs.receive(theirs)
    handle = message["ReceiptHandle"]
    wrong_queue = ("ReceiptHandleIsInvalid", f'The receipt handle "{handle}" is not valid for this queue.')
    assert await refused(sqs.delete(mine, message)) == wrong_queue
    assert await refused(sqs.hide(mine, message, 1)) == wrong_queue
    garbage = {"ReceiptHandle": "garbage"}
    never = ("ReceiptHandleIsInvalid", 'The input receipt handle "garbage" is not a valid receipt handle.')
    assert await refused(sqs.delete(mine, garbage)) == never
    assert await refused(sqs.hide(mine, garbage, 1)) == never


async def test_timeout_is_required_to_change_visibility(sqs: Sqs) -> None:
    url = await sqs.queue()
    code, text = await refused(sqs("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle="x"))
    assert (code, text) == ("MissingParameter", "The request must contain the parameter VisibilityTimeout.")
