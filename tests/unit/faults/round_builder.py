"""Builds made-up rounds for tests of the accounting."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from lab.faults.accounting.accounting import Account
from lab.faults.accounting.arrivals import Arrivals
from lab.faults.accounting.causes import Causes, EmbeddedCauses
from lab.faults.accounting.failing_endpoints import FailingEndpoints
from lab.faults.accounting.ledger import NS_PER_S, PART_EVERY, Ledger, Receipt
from lab.faults.service.resources import RoundResources
from lab.harness.signing import Credentials

STANDARD, FIFO, REDRIVE, DEAD_LETTERS, NEWS_QUEUE = "standard", "fifo", "redrive", "dead-letters", "news-queue"
NEWS, WIDE, ORDERED = "arn:news", "arn:wide", "arn:ordered"
IN_ORDER, IN_ENVELOPES, IN_PART = "in-order", "in-envelopes", "in-part"
RESOURCES = RoundResources(
    data=Path(),
    port=0,
    journal=Path(),
    credentials=Credentials(key_id="", secret=""),
    standard=STANDARD,
    fifo=FIFO,
    redrive=REDRIVE,
    dead_letter_queue=DEAD_LETTERS,
    news_queue=NEWS_QUEUE,
    news=NEWS,
    wide=WIDE,
    ordered=ORDERED,
    in_order=IN_ORDER,
    in_envelopes=IN_ENVELOPES,
    in_part=IN_PART,
    subscribers={NEWS: 2, WIDE: 1},
)
FAILING_TOPIC, UNDELIVERED = "arn:failing", "undelivered"
FAILING, DOOMED = f"{FAILING_TOPIC}:1", f"{FAILING_TOPIC}:2"
FAILING_RESOURCES = msgspec.structs.replace(
    RESOURCES,
    subscribers={FAILING_TOPIC: 2},
    failing_endpoints=FailingEndpoints(
        topic=FAILING_TOPIC, failing=FAILING, doomed=DOOMED, undelivered=UNDELIVERED, receiver=""
    ),
)
COPY = 1_000
"""The sequence number of a second copy of a message is higher by this."""
KILL_S, BACK_S, JUMP_S = 100.0, 102.0, 110.0


class RoundBuilder:
    """Each method adds an event to the round; times are in seconds."""

    def __init__(self, journal: Path) -> None:
        journal.touch()
        self._journal = journal
        self._arrivals = Arrivals(journal)
        self.ledger = Ledger(kills_ns=[at_ns(KILL_S)], recovered_ns=[at_ns(BACK_S)], jumps_ns=[at_ns(JUMP_S)])
        self.resources = RESOURCES
        self.causes: Causes = EmbeddedCauses(self.ledger)

    def sends(self, text: str, *ids: str, open: int = 0) -> RoundBuilder:  # noqa: A002  # as in SentMessage
        message = self.ledger.add_message(STANDARD, text)
        message.ids += ids
        message.unknown_outcomes = open
        return self

    def sends_in_group(self, *numbers: int, queue: str = FIFO) -> RoundBuilder:
        for number in numbers:
            message = self.ledger.add_message(queue, f"g-{number}", "g", number)
            message.ids.append(f"id-{number}")
            message.sequence = number
        return self

    def publishes(
        self,
        text: str,
        *ids: str,
        open: int = 0,  # noqa: A002
        at_s: float = 0,
        topic: str = NEWS,
    ) -> RoundBuilder:
        message = self.ledger.add_message(topic, text)
        message.ids += ids
        message.unknown_outcomes = open
        message.began_ns = at_ns(at_s)
        return self

    def receives(
        self, text: str, message_id: str, at_s: float, *, deleted: bool = True, queue: str = STANDARD
    ) -> RoundBuilder:
        self._receipt(queue, text, message_id, at_s, deleted=deleted)
        return self

    def receives_in_group(self, number: int, at_s: float, *, held_s: float = 0.01, queue: str = FIFO) -> RoundBuilder:
        receipt = self._receipt(queue, f"g-{number}", f"id-{number}", at_s)
        receipt.group, receipt.sequence = "g", number
        receipt.delete_asked_ns = at_ns(at_s + held_s)
        receipt.deleted_ns = receipt.delete_asked_ns + 1
        return self

    def receives_undeleted(self, number: int, *at_s: float) -> RoundBuilder:
        """Receives a message from the queue with a redrive policy and does not delete it."""
        for second in at_s:
            receipt = self._receipt(REDRIVE, f"g-{number}", f"id-{number}", second, deleted=False)
            receipt.group, receipt.sequence = "g", number
        return self

    def moves(self, number: int, *at_s: float) -> RoundBuilder:
        """Moves a message to the dead-letter queue at each of these times."""
        self.ledger.moves[f"id-{number}"] = [at_ns(second) for second in at_s]
        return self

    def repeats(self, number: int, message_id: str, sequence: int, target: str = FIFO) -> RoundBuilder:
        """Sends a message again and gets this answer."""
        self.ledger.sent[target][f"g-{number}"].repeats.append((message_id, sequence))
        return self

    def publishes_in_order(self, *numbers: int) -> RoundBuilder:
        return self.sends_in_group(*numbers, queue=ORDERED)

    def delivers(self, number: int, at_s: float, *queues: str, copy: int = 0) -> RoundBuilder:
        """Receives a message from these queues of the FIFO topic; by default, from each whose filter it matches."""
        due = (IN_ORDER, IN_ENVELOPES, *((IN_PART,) if number % PART_EVERY == 0 else ()))
        for queue in queues or due:
            self.receives_in_group(number, at_s, queue=queue)
            receipt = self.ledger.receipts[-1]
            receipt.sequence += COPY * copy
            if copy:
                receipt.id += f"-{copy}"
            if queue == IN_ENVELOPES:
                receipt.notification, receipt.published = f"id-{number}", number
        return self

    def receives_envelope(
        self, text: str, notification: str, at_s: float, *, copy: int = 0, queue: str = NEWS_QUEUE
    ) -> RoundBuilder:
        receipt = self._receipt(queue, text, f"{notification}-{copy}", at_s)
        receipt.notification, receipt.sent_ms = notification, int(at_s * 1000)
        return self

    def arrives(
        self, notification: str, *arrivals: tuple[int, float], topic: str = NEWS, status: int = 200
    ) -> RoundBuilder:
        with self._journal.open("a") as file:
            for number, at_s in arrivals:
                file.write(f"{at_ns(at_s)}\te\t{notification}\t{topic}:{number}\t{status}\n")
        return self

    def account(self) -> Account:
        self._arrivals.read()
        return Account(self.resources, self.ledger, self._arrivals, self.causes)

    def _receipt(self, queue: str, text: str, message_id: str, at_s: float, *, deleted: bool = True) -> Receipt:
        self.ledger.receive_count += 1
        receipt = Receipt(
            queue=queue,
            id=message_id,
            text=text,
            group="",
            sequence=0,
            receive_number=self.ledger.receive_count,
            sent_ms=0,
            received_ns=at_ns(at_s),
            asked_ns=at_ns(at_s),
            delete_asked_ns=at_ns(at_s) + 1 if deleted else 0,
            deleted_ns=at_ns(at_s) + 2 if deleted else 0,
        )
        self.ledger.receipts.append(receipt)
        return receipt


def at_ns(seconds: float) -> int:
    return int(seconds * NS_PER_S)


def fault_kinds(builder: RoundBuilder) -> list[str]:
    return [fault.partition(":")[0] for fault in builder.account().faults]


def causes_of(builder: RoundBuilder) -> Counter[str]:
    """The causes of duplicates of a valid round."""
    account = builder.account()
    assert account.faults == []
    return +account.duplicates
