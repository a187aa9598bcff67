"""Consumers of a round: they receive messages, enter them in the ledger, and delete them until that is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from cns_common.ids import hex_id
from lab.faults.accounting.ledger import Ledger, Receipt, text_of
from lab.faults.accounting.redrive_queue import is_poison
from lab.faults.service.resources import REDRIVE_VISIBILITY_S, VISIBILITY_S, RoundResources
from lab.faults.service.senders import RETRY_PAUSE_S
from lab.faults.service.wire import Caller, Refused


class Consumer:
    def __init__(self, caller: Caller, resources: RoundResources, ledger: Ledger) -> None:
        self._caller = caller
        self._resources = resources
        self._ledger = ledger
        self._attempts: dict[str, str] = {}
        """By FIFO queue: the id under which a receive is repeated until it is answered."""

    async def receive(self, queue: str, count: int, wait_s: int, *, extends: bool = False) -> None:
        """Receive once, and delete what came. If `extends`, the messages get their visibility timeout again before."""
        lease_s = self._lease_s(queue)
        members = {
            "QueueUrl": queue,
            "MaxNumberOfMessages": count,
            "VisibilityTimeout": lease_s,
            "WaitTimeSeconds": wait_s,
            "MessageSystemAttributeNames": ["All"],
        }
        if queue in self._resources.fifo_queues:
            members["ReceiveRequestAttemptId"] = self._attempts.setdefault(queue, hex_id())
        asked_ns = time.time_ns()
        answer = await self._caller.call("sqs", "receive_message", members)
        if queue in self._resources.fifo_queues:
            self._ledger.unknown_receives += answer.unknown_outcomes
        if answer.failed:
            await asyncio.sleep(RETRY_PAUSE_S)
            return
        self._attempts.pop(queue, None)
        for receipt, handle in self._enter(queue, asked_ns, answer.members.get("Messages", [])):
            if queue == self._resources.redrive and is_poison(receipt.text):
                continue
            message = {"QueueUrl": queue, "ReceiptHandle": handle}
            if extends:
                await self._caller.call("sqs", "change_message_visibility", message | {"VisibilityTimeout": lease_s})
            await self._delete(receipt, message)

    async def _delete(self, receipt: Receipt, message: dict[str, Any]) -> None:
        receipt.delete_asked_ns = time.time_ns()
        while True:
            try:
                answer = await self._caller.call("sqs", "delete_message", message)
            except Refused as error:
                if not receipt.group:
                    raise
                self._note_refusal(receipt, error)
                return
            receipt.unknown_deletes += answer.unknown_outcomes
            if not answer.failed:
                receipt.deleted_ns = time.time_ns()
                return
            await asyncio.sleep(RETRY_PAUSE_S)

    def _note_refusal(self, receipt: Receipt, error: Refused) -> None:
        """A FIFO queue refuses a delete after the lease's end; a refusal before it is a fault."""
        if not self._ledger.lease_over(receipt.asked_ns, time.time_ns(), self._lease_s(receipt.queue)):
            self._ledger.refusals.append(f"{receipt.text}: {error}")

    def _lease_s(self, queue: str) -> int:
        return REDRIVE_VISIBILITY_S if queue == self._resources.redrive else VISIBILITY_S

    def _enter(self, queue: str, asked_ns: int, messages: Sequence[dict[str, Any]]) -> list[tuple[Receipt, str]]:
        """Enter the messages of a receive. Returns them with their receipt handles."""
        received_ns = time.time_ns()
        self._ledger.receive_count += 1
        receipts = []
        for message in messages:
            body: str = message["Body"]
            envelope: dict[str, str] = {}
            if queue in self._resources.envelope_queues:
                envelope = msgspec.json.decode(body)
                body = envelope["Message"]
            attributes: dict[str, str] = message["Attributes"]
            receipt = Receipt(
                queue=queue,
                id=message["MessageId"],
                text=text_of(body),
                group=attributes.get("MessageGroupId", ""),
                sequence=int(attributes.get("SequenceNumber", "0")),
                receive_number=self._ledger.receive_count,
                sent_ms=int(attributes["SentTimestamp"]),
                received_ns=received_ns,
                asked_ns=asked_ns,
                notification=envelope.get("MessageId", ""),
                published=int(envelope.get("SequenceNumber", "0")),
            )
            self._ledger.receipts.append(receipt)
            receipts.append((receipt, message["ReceiptHandle"]))
        return receipts
