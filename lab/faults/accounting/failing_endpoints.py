"""A topic whose HTTP endpoints fail during a part of a kill round: deliveries fail, wait, or are dead-lettered."""

from __future__ import annotations

import msgspec

from lab.harness.endpoints import Endpoint

SUBSCRIPTIONS = REFUSED, HUNG, FAILING, DOOMED, THROTTLED = "refused", "hung", "failing", "doomed", "throttled"
BEHAVIOURS: dict[str, dict[str, object]] = {
    REFUSED: {"refuse": True},
    HUNG: {"hang": True},
    FAILING: {"status": 500},
    DOOMED: {"status": 500},
}
"""By endpoint name. The throttled endpoint is healthy."""
FAILING_PAUSE_S = 20
DOOMED_ATTEMPTS = 1
POLICIES: dict[str, dict[str, object]] = {
    FAILING: {"healthyRetryPolicy": {"numRetries": 50, "minDelayTarget": FAILING_PAUSE_S, "maxDelayTarget": 20}},
    DOOMED: {"healthyRetryPolicy": {"numRetries": DOOMED_ATTEMPTS - 1, "minDelayTarget": 1, "maxDelayTarget": 1}},
    THROTTLED: {"throttlePolicy": {"maxReceivesPerSecond": 15}},
}
DELIVERY_TIMEOUT_S = 3.0
"""Setting of the service under fault: a delivery to the hanging endpoint fails after this time."""


class FailingEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with one subscription for each endpoint of this module."""

    topic: str  # ARN
    failing: str  # subscription ARN: answers 500, and each attempt is repeated after `FAILING_PAUSE_S`
    doomed: str  # subscription ARN: after `DOOMED_ATTEMPTS` attempts its messages are dead letters
    undelivered: str  # URL of its dead-letter queue
    receiver: str  # the URL of the fault receiver

    def fail(self) -> None:
        self._behave(BEHAVIOURS)

    def recover(self) -> None:
        """Answer 200 from the next request on. Requests that hang already are not released."""
        self._behave({name: {"status": 200} for name in BEHAVIOURS})

    def _behave(self, behaviours: dict[str, dict[str, object]]) -> None:
        for name, behaviour in behaviours.items():
            Endpoint(self.receiver, name).behave(**behaviour)
