"""Builds the ledger and journal of an imaginary round, for tests of the accounting."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from faults.accounting.accounting import Account
from faults.accounting.arrivals import Arrivals
from faults.accounting.causes import Causes, OneMachine
from faults.accounting.failing_endpoints import FailingEndpoints
from faults.accounting.ledger import NS_PER_S, PART_EVERY, Ledger, Receipt
from faults.service.resources import RoundResources

STANDARD, FIFO, EXPIRING, DEAD, LETTERS = "standard", "fifo", "expiring", "dead", "letters"
NEWS, WIDE, ORDERED = "arn:news", "arn:wide", "arn:ordered"
IN_ORDER, IN_ENVELOPES, IN_PART = "in-order", "in-envelopes", "in-part"
RESOURCES = RoundResources(
    data=Path(),
    port=0,
    journal=Path(),
    credentials=("", ""),
    standard=STANDARD,
    fifo=FIFO,
    expiring=EXPIRING,
    dead=DEAD,
    letters=LETTERS,
    news=NEWS,
    wide=WIDE,
    ordered=ORDERED,
    in_order=IN_ORDER,
    in_envelopes=IN_ENVELOPES,
    in_part=IN_PART,
    subscribers={NEWS: 2, WIDE: 1},
)
FAILING_TOPIC, UNDELIVERED = "arn:failing_endpoints", "undelivered"
FAILING, DOOMED = f"{FAILING_TOPIC}:1", f"{FAILING_TOPIC}:2"
RESOURCES_THAT_FAIL = msgspec.structs.replace(
    RESOURCES,
    subscribers={FAILING_TOPIC: 2},
    failing_endpoints=FailingEndpoints(
        topic=FAILING_TOPIC, failing=FAILING, doomed=DOOMED, undelivered=UNDELIVERED, receiver_port=0
    ),
)
COPY = 1_000
"""A second message of the same has a sequence number so much higher."""
KILL_S, BACK_S, JUMP_S = 100.0, 102.0, 110.0


class RoundBuilder:
    """Times are seconds since the begin of the round."""

    def __init__(self, journal: Path) -> None:
        journal.touch()
        self._journal = journal
        self._arrivals = Arrivals(journal)
        self.ledger = Ledger(kills_ns=[at_ns(KILL_S)], back_ns=[at_ns(BACK_S)], jumps_ns=[at_ns(JUMP_S)])
        self.resources = RESOURCES
        self.causes: Causes = OneMachine(self.ledger)

    def sends(self, text: str, *ids: str, open: int = 0) -> RoundBuilder:  # noqa: A002  # as in Letter
        letter = self.ledger.letter(STANDARD, text)
        letter.ids += ids
        letter.open = open
        return self

    def sends_in_group(self, *numbers: int, queue: str = FIFO) -> RoundBuilder:
        for number in numbers:
            letter = self.ledger.letter(queue, f"g-{number}", "g", number)
            letter.ids.append(f"id-{number}")
            letter.sequence = number
        return self

    def publishes(
        self,
        text: str,
        *ids: str,
        open: int = 0,  # noqa: A002
        at_s: float = 0,
        topic: str = NEWS,
    ) -> RoundBuilder:
        letter = self.ledger.letter(topic, text)
        letter.ids += ids
        letter.open = open
        letter.began_ns = at_ns(at_s)
        return self

    def gets(
        self, text: str, message_id: str, at_s: float, *, deleted: bool = True, queue: str = STANDARD
    ) -> RoundBuilder:
        self._receipt(queue, text, message_id, at_s, deleted=deleted)
        return self

    def gets_of_group(self, number: int, at_s: float, *, held_s: float = 0.01, queue: str = FIFO) -> RoundBuilder:
        receipt = self._receipt(queue, f"g-{number}", f"id-{number}", at_s)
        receipt.group, receipt.sequence = "g", number
        receipt.delete_asked_ns = at_ns(at_s + held_s)
        receipt.deleted_ns = receipt.delete_asked_ns + 1
        return self

    def times_out(self, number: int, *at_s: float) -> RoundBuilder:
        """Receives one and does not delete it."""
        for second in at_s:
            receipt = self._receipt(EXPIRING, f"g-{number}", f"id-{number}", second, deleted=False)
            receipt.group, receipt.sequence = "g", number
        return self

    def moves(self, number: int, *at_s: float) -> RoundBuilder:
        """Appends a dead letter, again and again."""
        self.ledger.moves[f"id-{number}"] = [at_ns(second) for second in at_s]
        return self

    def echoes(self, number: int, message_id: str, sequence: int, target: str = FIFO) -> RoundBuilder:
        """Sends one once more, and is told this."""
        self.ledger.sent[target][f"g-{number}"].echoes.append((message_id, sequence))
        return self

    def publishes_in_order(self, *numbers: int) -> RoundBuilder:
        return self.sends_in_group(*numbers, queue=ORDERED)

    def comes(self, number: int, at_s: float, *queues: str, copy: int = 0) -> RoundBuilder:
        """Out of these queues of the FIFO topic; without any, out of each that it is for."""
        due = (IN_ORDER, IN_ENVELOPES, *((IN_PART,) if number % PART_EVERY == 0 else ()))
        for queue in queues or due:
            self.gets_of_group(number, at_s, queue=queue)
            receipt = self.ledger.receipts[-1]
            receipt.sequence += COPY * copy
            if copy:
                receipt.id += f"-{copy}"
            if queue == IN_ENVELOPES:
                receipt.notification, receipt.published = f"id-{number}", number
        return self

    def gets_envelope(
        self, text: str, notification: str, at_s: float, *, copy: int = 0, queue: str = LETTERS
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
        self.ledger.takes += 1
        receipt = Receipt(
            queue=queue,
            id=message_id,
            text=text,
            group="",
            sequence=0,
            take=self.ledger.takes,
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
    """Of a valid round."""
    account = builder.account()
    assert account.faults == []
    return +account.duplicates
