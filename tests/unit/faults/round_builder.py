"""A made-up round, for tests of the accounting."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from faults.accounting.accounting import Account
from faults.accounting.arrivals import Arrivals
from faults.accounting.causes import Causes, OneMachine
from faults.accounting.failing_endpoints import Ailing
from faults.accounting.ledger import NS_PER_S, PART_EVERY, Ledger, Receipt
from faults.service.resources import Scene

STANDARD, FIFO, WORN, DEAD, LETTERS = "standard", "fifo", "worn", "dead", "letters"
NEWS, WIDE, ORDERED = "arn:news", "arn:wide", "arn:ordered"
IN_ORDER, IN_ENVELOPES, IN_PART = "in-order", "in-envelopes", "in-part"
SCENE = Scene(
    data=Path(),
    port=0,
    journal=Path(),
    credentials=("", ""),
    standard=STANDARD,
    fifo=FIFO,
    worn=WORN,
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
AILING, UNDELIVERED = "arn:ailing", "undelivered"
FAILING, DOOMED = f"{AILING}:1", f"{AILING}:2"
ILL_SCENE = msgspec.structs.replace(
    SCENE,
    subscribers={AILING: 2},
    ailing=Ailing(topic=AILING, failing=FAILING, doomed=DOOMED, undelivered=UNDELIVERED, receiver_port=0),
)
COPY = 1_000
"""A second message of the same has a sequence number so much higher."""
KILL_S, BACK_S, JUMP_S = 100.0, 102.0, 110.0


class Story:
    """A round told in a few words; times are seconds."""

    def __init__(self, journal: Path) -> None:
        journal.touch()
        self._journal = journal
        self._arrivals = Arrivals(journal)
        self.ledger = Ledger(kills_ns=[at_ns(KILL_S)], back_ns=[at_ns(BACK_S)], jumps_ns=[at_ns(JUMP_S)])
        self.scene = SCENE
        self.causes: Causes = OneMachine(self.ledger)

    def sends(self, text: str, *ids: str, open: int = 0) -> Story:  # noqa: A002  # as in Letter
        letter = self.ledger.letter(STANDARD, text)
        letter.ids += ids
        letter.open = open
        return self

    def sends_in_group(self, *numbers: int, queue: str = FIFO) -> Story:
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
    ) -> Story:
        letter = self.ledger.letter(topic, text)
        letter.ids += ids
        letter.open = open
        letter.began_ns = at_ns(at_s)
        return self

    def gets(self, text: str, message_id: str, at_s: float, *, deleted: bool = True, queue: str = STANDARD) -> Story:
        self._receipt(queue, text, message_id, at_s, deleted=deleted)
        return self

    def gets_of_group(self, number: int, at_s: float, *, held_s: float = 0.01, queue: str = FIFO) -> Story:
        receipt = self._receipt(queue, f"g-{number}", f"id-{number}", at_s)
        receipt.group, receipt.sequence = "g", number
        receipt.delete_asked_ns = at_ns(at_s + held_s)
        receipt.deleted_ns = receipt.delete_asked_ns + 1
        return self

    def wears(self, number: int, *at_s: float) -> Story:
        """Receives one and does not delete it."""
        for second in at_s:
            receipt = self._receipt(WORN, f"g-{number}", f"id-{number}", second, deleted=False)
            receipt.group, receipt.sequence = "g", number
        return self

    def moves(self, number: int, *at_s: float) -> Story:
        """Appends a dead letter, again and again."""
        self.ledger.moves[f"id-{number}"] = [at_ns(second) for second in at_s]
        return self

    def echoes(self, number: int, message_id: str, sequence: int, target: str = FIFO) -> Story:
        """Sends one once more, and is told this."""
        self.ledger.sent[target][f"g-{number}"].echoes.append((message_id, sequence))
        return self

    def publishes_in_order(self, *numbers: int) -> Story:
        return self.sends_in_group(*numbers, queue=ORDERED)

    def comes(self, number: int, at_s: float, *queues: str, copy: int = 0) -> Story:
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

    def gets_envelope(self, text: str, notification: str, at_s: float, *, copy: int = 0, queue: str = LETTERS) -> Story:
        receipt = self._receipt(queue, text, f"{notification}-{copy}", at_s)
        receipt.notification, receipt.sent_ms = notification, int(at_s * 1000)
        return self

    def arrives(self, notification: str, *arrivals: tuple[int, float], topic: str = NEWS, status: int = 200) -> Story:
        with self._journal.open("a") as file:
            for number, at_s in arrivals:
                file.write(f"{at_ns(at_s)}\te\t{notification}\t{topic}:{number}\t{status}\n")
        return self

    def account(self) -> Account:
        self._arrivals.read()
        return Account(self.scene, self.ledger, self._arrivals, self.causes)

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


def fault_kinds(story: Story) -> list[str]:
    return [fault.partition(":")[0] for fault in story.account().faults]


def causes_of(story: Story) -> Counter[str]:
    """Of a valid round."""
    account = story.account()
    assert account.faults == []
    return +account.duplicates
