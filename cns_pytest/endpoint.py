"""An HTTP endpoint that records deliveries and answers them by a script; `cns receiver` serves it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from cns_pytest.http import fetch

WAIT_S = 30.0
RECORDS_MAX = 10_000

Answer = int | Mapping[str, object]
"""A status, or a behaviour of `cns receiver`: `{"hang": True}`, `{"status": 503, "retry_after": "2"}`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Confirmations are answered and confirmed by themselves; `messages` are the notifications that arrived."""

    url: str

    def answer(self, *answers: Answer) -> None:
        """Answer the next notifications so, one after another, and those that follow with 200."""
        if not answers:
            self._request("behaviour", None, "DELETE")
        else:
            self._request("behaviour", _script(answers), "PUT")

    def answer_always(self, answer: Answer) -> None:
        """Answer all notifications so, until told otherwise."""
        self._request("behaviour", _behaviour(answer), "PUT")

    def requests(self) -> list[dict[str, Any]]:
        """Every attempt to deliver a notification, answered with any status: body, headers, attempt, status."""
        return [one for one in self._look()["messages"] if one["type"] != "SubscriptionConfirmation"]

    def messages(self) -> list[str]:
        """The texts of the notifications that were answered with 2xx, in the order of arrival, repeated ones too."""
        return [_text(one) for one in self.requests() if 200 <= one["status"] < 300]

    def wait_messages(self, count: int, timeout_s: float = WAIT_S) -> list[str]:
        """Wait until this many notifications were answered with 2xx. Returns their texts."""
        return self._wait("accepted", count, timeout_s)

    def wait_requests(self, count: int, timeout_s: float = WAIT_S) -> list[dict[str, Any]]:
        """Wait until this many attempts arrived."""
        self._wait("received", count, timeout_s)
        return self.requests()

    def wait_confirmed(self, timeout_s: float = WAIT_S) -> None:
        self._wait("confirmed", 1, timeout_s)

    def forget(self) -> None:
        """Forget what arrived and how to answer."""
        self._request("", None, "DELETE")

    def _wait(self, counter: str, count: int, timeout_s: float) -> list[str]:
        found = self._look(**{counter: count, "wait_s": timeout_s})
        if found[counter] < count:
            counts = {name: value for name, value in found.items() if isinstance(value, int)}
            raise AssertionError(f"{counter} is {found[counter]}, not {count}, after {timeout_s} s: {counts}")
        return self.messages()

    def _look(self, **query: float) -> dict[str, Any]:
        url = f"{self.url}?{urlencode({'n': RECORDS_MAX, **query})}"
        looked: dict[str, Any] = json.loads(fetch(url, timeout_s=query.get("wait_s", 0) + WAIT_S)[1])
        return looked

    def _request(self, page: str, value: object, method: str) -> None:
        body = None if value is None else json.dumps(value).encode()
        status, answer = fetch(f"{self.url}/{page}".rstrip("/"), body, method=method)
        if status >= 300:
            raise ValueError(f"the receiver refused: {answer.decode(errors='replace')}")


def _behaviour(answer: Answer) -> dict[str, object]:
    return {"status": answer} if isinstance(answer, int) else dict(answer)


def _script(answers: Sequence[Answer]) -> dict[str, object]:
    script: dict[str, object] | None = None
    for answer in reversed(answers):
        step: dict[str, object] = {"times": 1, **_behaviour(answer)}
        script = step if script is None else {**step, "then": script}
    assert script is not None
    return script


def _text(request: Mapping[str, Any]) -> str:
    """The message's text, whether delivered raw or in SNS's envelope."""
    body: str = request["body"]
    if request["headers"].get("x-amz-sns-rawdelivery") == "true":
        return body
    try:
        return str(json.loads(body)["Message"])
    except (ValueError, KeyError, TypeError):
        return body
