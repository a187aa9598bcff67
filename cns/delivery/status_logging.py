"""Decides which deliveries are logged, from the feedback attributes of topics, applications and SMS settings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cns.limits import SAMPLE_RATE_MAX
from cns.protocols.table import find_protocol


class Feedback(msgspec.Struct, frozen=True):
    """`success_rate`: percentage of successes that are logged."""

    success_rate: int = 0
    failures: bool = False

    def wants(self, draw: float, *, success: bool) -> bool:
        """`draw` is random, from 0 up to 1. Failures are logged all or not at all."""
        return draw * SAMPLE_RATE_MAX < self.success_rate if success else self.failures


NO_FEEDBACK = Feedback()


def topic_feedback(attributes: Mapping[str, str], protocol: str) -> Feedback:
    prefix = find_protocol(protocol).feedback_prefix
    return _feedback(attributes, prefix) if prefix else NO_FEEDBACK


def application_feedback(attributes: Mapping[str, str]) -> Feedback:
    return _feedback(attributes, "")


def sms_feedback(attributes: Mapping[str, str]) -> Feedback:
    """One role enables both, successes and failures."""
    if not attributes.get("DeliveryStatusIAMRole"):
        return NO_FEEDBACK
    return Feedback(_rate(attributes.get("DeliveryStatusSuccessSamplingRate")), failures=True)


def _feedback(attributes: Mapping[str, str], prefix: str) -> Feedback:
    rate = _rate(attributes.get(f"{prefix}SuccessFeedbackSampleRate"))
    return Feedback(
        rate if attributes.get(f"{prefix}SuccessFeedbackRoleArn") else 0,
        bool(attributes.get(f"{prefix}FailureFeedbackRoleArn")),
    )


def _rate(text: str | None) -> int:
    """Without a rate a role logs all successes."""
    return int(text) if text else SAMPLE_RATE_MAX
