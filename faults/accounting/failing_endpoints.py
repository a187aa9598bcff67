"""A topic whose HTTP endpoints are ill for a part of a kill round: what is for them fails, waits, or is given up."""

from __future__ import annotations

import msgspec

from bench.load.signing import Credentials
from faults.service.wire import Wire

REFUSED, HUNG, FAILING, DOOMED, THROTTLED = "refused", "hung", "failing", "doomed", "throttled"
ILLS: dict[str, dict[str, object]] = {
    REFUSED: {"refuse": True},
    HUNG: {"hang": True},
    FAILING: {"status": 500},
    DOOMED: {"status": 500},
}
"""By endpoint. The throttled one is well."""
FAILING_PAUSE_S = 20
DOOMED_ATTEMPTS = 1
POLICIES: dict[str, dict[str, object]] = {
    FAILING: {"healthyRetryPolicy": {"numRetries": 50, "minDelayTarget": FAILING_PAUSE_S, "maxDelayTarget": 20}},
    DOOMED: {"healthyRetryPolicy": {"numRetries": DOOMED_ATTEMPTS - 1, "minDelayTarget": 1, "maxDelayTarget": 1}},
    THROTTLED: {"throttlePolicy": {"maxReceivesPerSecond": 15}},
}
DELIVERY_TIMEOUT_S = 3.0
"""Of the service under fault: a send to the endpoint that hangs fails after so long."""


class Ailing(msgspec.Struct, frozen=True, kw_only=True):
    """Its subscriptions are one to each endpoint."""

    topic: str  # ARN
    failing: str  # subscription ARNs: what it answers with 500 is tried again after `FAILING_PAUSE_S`
    doomed: str  # after `DOOMED_ATTEMPTS` in all its messages are dead letters
    undelivered: str  # queue URL: where those go
    receiver_port: int

    async def hurt(self) -> None:
        await self._behave(ILLS)

    async def heal(self) -> None:
        """From the next request on; what hangs goes on hanging."""
        await self._behave({name: {"status": 200} for name in ILLS})

    async def _behave(self, behaviours: dict[str, dict[str, object]]) -> None:
        wire = Wire(self.receiver_port, Credentials(key_id="", secret=""))
        for name, behaviour in behaviours.items():
            await wire.put(f"/endpoint/{name}/behaviour", msgspec.json.encode(behaviour))
        wire.close()
