"""The compared kinds of queue: how to create and fill them, and the members of a send."""

from __future__ import annotations

import msgspec

from lab.load.queues import BATCH, VARIANTS, Client
from lab.load.wire import Budget, LoadError, Script, run

MESSAGES_A_GROUP = 10
FILL_SECONDS_MAX = 900.0


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    file: str
    fifo: bool = False
    groups_max: int = 0  # 0: messages have no group

    @property
    def fair(self) -> bool:
        return self.groups_max > 0 and not self.fifo

    def queue(self, name: str) -> str:
        return f"{self.file}-{name}{'.fifo' if self.fifo else ''}"

    def members(self, number: int, depth: int) -> dict[str, str]:
        """Members of a send besides the body. All deduplication ids differ."""
        if not self.groups_max:
            return {}
        group = f"group-{number % max(min(self.groups_max, depth // MESSAGES_A_GROUP), 1)}"
        return {"MessageGroupId": group, **({"MessageDeduplicationId": str(number)} if self.fifo else {})}


KINDS = (
    Kind(name="standard", file="standard"),
    Kind(name="fair, 1,000 tenants", file="fair", groups_max=1_000),
    Kind(name="FIFO, many groups", file="fifo-many", fifo=True, groups_max=1_000_000),
    Kind(name="FIFO, one group", file="fifo-one", fifo=True, groups_max=1),
)


class QueueFiller:
    """Sends numbered messages to a queue of a kind."""

    def __init__(self, client: Client, kind: Kind, depth: int) -> None:
        self.client = client
        self.kind = kind
        self.depth = depth
        self._next = 0
        self._bodies = [client.body() for _ in range(VARIANTS)]

    async def use_queue(self, name: str) -> None:
        attributes = {"FifoQueue": "true"} if self.kind.fifo else {}
        await self.client.use_queue(self.kind.queue(name), **attributes)

    def send(self) -> bytes:
        return self.client.call("SendMessage", **self._message(self._number()))

    def send_batch(self) -> bytes:
        entries = [{"Id": str(place), **self._message(self._number())} for place in range(BATCH)]
        return self.client.call("SendMessageBatch", Entries=entries)

    async def fill(self, messages: int) -> None:
        """Send in batches of ten over all connections."""
        budget = Budget(messages, FILL_SECONDS_MAX)

        def script() -> Script:
            while budget.take(BATCH):
                if b'"Failed"' in (yield [], self.send_batch()):
                    raise LoadError("an entry of a batch was refused")

        await run(self.client.lanes, [script() for _ in self.client.lanes])
        if budget.left:
            raise LoadError(
                f"{budget.left:,} of {messages:,} messages could not be sent within {FILL_SECONDS_MAX:.0f} s"
            )

    def _number(self) -> int:
        number = self._next
        self._next += 1
        return number

    def _message(self, number: int) -> dict[str, str]:
        body = self._bodies[number % len(self._bodies)]
        return {"MessageBody": body, **self.kind.members(number, self.depth)}
