"""A topic whose HTTP endpoints fail during a part of a kill round: notifications are retried, wait, or are given up."""

from __future__ import annotations

import msgspec

from bench.load.signing import Credentials
from faults.service.wire import Wire

REFUSED, HUNG, FAILING, DOOMED, THROTTLED = "refused", "hung", "failing", "doomed", "throttled"
FAILURES: dict[str, dict[str, object]] = {
    REFUSED: {"refuse": True},
    HUNG: {"hang": True},
    FAILING: {"status": 500},
    DOOMED: {"status": 500},
}
"""How each endpoint fails. The throttled one does not."""
FAILING_PAUSE_S = 20
DOOMED_ATTEMPTS = 1
POLICIES: dict[str, dict[str, object]] = {
    FAILING: {"healthyRetryPolicy": {"numRetries": 50, "minDelayTarget": FAILING_PAUSE_S, "maxDelayTarget": 20}},
    DOOMED: {"healthyRetryPolicy": {"numRetries": DOOMED_ATTEMPTS - 1, "minDelayTarget": 1, "maxDelayTarget": 1}},
    THROTTLED: {"throttlePolicy": {"maxReceivesPerSecond": 15}},
}
DELIVERY_TIMEOUT_S = 3.0
"""A setting of the service under test: a send to the endpoint that hangs fails after so long."""


class FailingEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """One topic with one subscription to each endpoint."""

    topic: str  # ARN
    failing: str  # subscription ARN: the endpoint answers 500, retried after `FAILING_PAUSE_S`
    doomed: str  # subscription ARN: its messages are dead letters after `DOOMED_ATTEMPTS` attempts
    undelivered: str  # queue URL of those dead letters
    receiver_port: int

    async def start_failing(self) -> None:
        await self._behave(FAILURES)

    async def recover(self) -> None:
        """Answer 200 from the next request on. Requests that hang go on hanging."""
        await self._behave({name: {"status": 200} for name in FAILURES})

    async def _behave(self, behaviours: dict[str, dict[str, object]]) -> None:
        wire = Wire(self.receiver_port, Credentials(key_id="", secret=""))
        for name, behaviour in behaviours.items():
            await wire.put(f"/endpoint/{name}/behaviour", msgspec.json.encode(behaviour))
        wire.close()
