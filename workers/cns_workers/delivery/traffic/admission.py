"""Admission control: lets each endpoint have as many sends at once as it can take, and defers the others.

    start ─► room: started ─► answered, or overdue after 1 s ─► answered
      ├────► no room: waits ─► room: started
      │                └─────► no room within 1 s, or less in a crowd: deferred
      └────► no room, and the circuit breaker is open or the endpoint may hang: deferred at once

A deferred target goes into its lane (`cns_workers.consumers.lane_consumer`). Endpoints that may hang, and endpoints
without history, are on probation: their sends share a bounded part of the pools, so that they cannot fill them.

Everything here runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from math import ceil

import structlog

from cns.delivery.endpoint_names import shown_endpoint, without_credentials
from cns.delivery.observers.contract import Deferral
from cns.endpoints.outcome import Outcome
from cns_backend.stores.contract import OpenBreaker, ProbeRequest
from cns_common.clock import Clock
from cns_common.events.schema import REASON_CHARS_MAX
from cns_common.metrics.catalogue import CIRCUIT_BREAKERS_OPEN, SENDS_DEFERRED, SENDS_ON_PROBATION, SENDS_OVERDUE
from cns_common.metrics.model import Sample
from cns_workers.delivery.traffic.endpoint_hints import EndpointHints
from cns_workers.delivery.traffic.endpoint_state import BLOCKED_S, OVERDUE_S, EndpointLimits, EndpointState
from cns_workers.delivery.traffic.sends import AdmittedAttempt, Send, StartSend, copy_result

WAIT_MAX_S = 1.0
PROBATION_SENDS_MAX = 900
"""Sends in flight to endpoints on probation. One thread of a pool has room for them."""
HUNG_SENDS_MAX = 500
"""With this many sends on probation in flight, no endpoint that has hung is tried again: so an unknown endpoint still
finds room, without waiting for the others' timeouts."""
WAITING_MAX = 2_000
"""Sends that wait here, above which no more jobs are received: in the queue tenants take turns, and a hundred targets
of a job are one row, not one each as in lanes."""
CROWD = WAITING_MAX // 2
"""With more sends waiting than this, the oldest are deferred early, so that newly received ones need not wait."""
CROWD_DEFERRALS_A_POLL = 100
ENDPOINTS_REMEMBERED = 20_000
POLL_INTERVAL_S = 0.05
"""Short, so that few sends at a time have waited too long, and deferring them takes no noticeable time."""
TRIED_A_POLL = 2
"""Endpoints on probation are tried from their lanes a few at a time: sends that start together time out together, and
so would all that follow them. Two a poll are 40 a second, more than the 33 that can time out (500 sends of 15 s)."""
TRIED_WITHIN_S = 10.0
"""With many endpoints on probation, so many are tried at a time that each waits about this long: so a recovery of
thousands is known soon."""

BREAKERS_REPORTED_MAX = 200
log = structlog.get_logger(__name__)


class AdmissionController:
    def __init__(self, limits: EndpointLimits, clock: Clock, hints: EndpointHints | None = None) -> None:
        self._limits = limits
        self._hints = hints or EndpointHints(None, clock)
        self._clock = clock
        self._endpoints: OrderedDict[str, EndpointState] = OrderedDict()
        self._waiting: dict[str, deque[Send]] = {}  # by endpoint: for its own room
        self._probation_waiting: deque[Send] = deque()  # for room on probation
        self._unknown_to_try: dict[str, None] = {}  # endpoints without history that have room
        self._hung_to_try: dict[str, None] = {}  # endpoints that have hung and have room
        self._on_probation = 0
        self._overdue = 0
        self._room_is_scarce = False
        self._open: dict[str, EndpointState] = {}  # endpoints whose circuit breaker is open
        self._started: deque[Send] = deque()  # in order of start: sends that may become overdue
        self._deadlines: deque[tuple[float, Send]] = deque()  # of sends that wait
        self._waiting_count = 0
        self._has_room = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._deferrals: dict[Deferral, int] = dict.fromkeys(Deferral, 0)
        self.on_room: Callable[[str], None] = _ignore
        """Called once after `await_room`, with the key of the endpoint."""

    def start(self, key: str, message_id: str, start: StartSend, topic: str = "") -> AdmittedAttempt:
        """Call `start` once the endpoint that `key` names has room, or defer the send. `topic`: its ARN."""
        now_s = self._now_s()
        endpoint = self._endpoint(key, now_s)
        send = Send(key, endpoint, message_id, start, topic)
        if self._may_start(endpoint, now_s):
            return self._start(send, now_s)
        if endpoint.breaker.is_open:
            return self.defer(Deferral.OPEN)
        if endpoint.overdue or endpoint.timed_out or self._stopped:
            return self.defer(Deferral.BUSY)
        send.wait = wait = asyncio.get_running_loop().create_future()
        self._waiting_count += 1
        wait.add_done_callback(lambda _: self._leave_wait() if send.attempt is None else None)
        self._enqueue(send, now_s)
        self._deadlines.append((now_s + WAIT_MAX_S, send))
        self._poll_later()
        return wait

    def defer(self, why: Deferral) -> AdmittedAttempt:
        wait: asyncio.Future[Outcome | Deferral] = asyncio.get_running_loop().create_future()
        self._defer(wait, why)
        return wait

    async def room(self) -> int:
        """Wait until a send may be asked for. Returns how many may."""
        while self._waiting_count >= WAITING_MAX:
            self._has_room.clear()
            await self._has_room.wait()
        return WAITING_MAX - self._waiting_count

    def stop(self) -> None:
        """Let no send wait from now on: those that cannot start are deferred."""
        self._stopped = True
        for _, send in self._deadlines:
            if send.wait is not None and not send.waits_no_more:
                self._defer(send.wait, Deferral.BUSY)
        self._deadlines.clear()

    def wait_s(self, key: str) -> float:
        """Seconds until a send may start, if no other one ends before; 0: at once."""
        now_s = self._now_s()
        endpoint = self._endpoint(key, now_s)
        if self._may_start(endpoint, now_s):
            return 0.0
        if endpoint.room(now_s, scarce=self._room_is_scarce) > 0:
            self._try_later(key, endpoint)
            return BLOCKED_S
        return endpoint.next_try_s(now_s) - now_s

    def pause_s(self, key: str) -> float:
        """Seconds after which a send that was deferred may be asked for again: soon, if the endpoint is only busy."""
        endpoint = self._endpoint(key, self._now_s())
        if endpoint.breaker.is_open or endpoint.overdue or endpoint.timed_out:
            return max(self.wait_s(key), WAIT_MAX_S)
        return WAIT_MAX_S

    def is_open(self, key: str) -> bool:
        """Whether the endpoint's circuit breaker is open."""
        return key in self._open

    def await_room(self, key: str) -> float:
        """Have `on_room` called when the endpoint has room, or its next try is known. Returns `wait_s`."""
        self._endpoint(key, self._now_s()).lane_waits = True
        return self.wait_s(key)

    def open_breakers(self) -> list[OpenBreaker]:
        """Endpoints whose circuit breaker is open, at most `BREAKERS_REPORTED_MAX`."""
        return [_open_breaker(key, self._open[key]) for key in islice(self._open, BREAKERS_REPORTED_MAX)]

    def probe(self, request: ProbeRequest) -> None:
        """Let a send probe an endpoint with an open circuit breaker now, once for each request."""
        for key, endpoint in self._open.items():
            account, shown = _shown(key)
            if (account, shown) == (request.account, request.endpoint) and endpoint.probe_asked_ms < request.asked_ms:
                endpoint.probe_asked_ms = request.asked_ms
                endpoint.breaker.probe_at_s = min(endpoint.breaker.probe_at_s, self._now_s())
                self._report_room(key, endpoint)

    def samples(self) -> list[Sample]:
        return [
            CIRCUIT_BREAKERS_OPEN.sample(len(self._open)),
            SENDS_OVERDUE.sample(self._overdue),
            SENDS_ON_PROBATION.sample(self._on_probation),
            *[SENDS_DEFERRED.sample(n, cause=str(why)) for why, n in self._deferrals.items()],
        ]

    # -- starting -----------------------------------------------------------------------------------------------------

    def _may_start(self, endpoint: EndpointState, now_s: float) -> bool:
        if endpoint.room(now_s, scarce=self._room_is_scarce) <= 0:
            return False
        if endpoint.timed_out:  # the pauses of an open breaker limit its tries, too
            return self._on_probation < HUNG_SENDS_MAX and (endpoint.probe_allowed or endpoint.breaker.is_open)
        return endpoint.is_trusted or self._on_probation < PROBATION_SENDS_MAX

    def _start(self, send: Send, now_s: float) -> asyncio.Future[Outcome]:
        endpoint = send.endpoint
        send.attempt = attempt = send.start()
        send.is_probe = endpoint.breaker.is_open
        send.started_s = now_s
        endpoint.start()
        if not endpoint.is_trusted:
            send.on_probation = True
            self._on_probation += 1
        attempt.add_done_callback(partial(self._end, send))
        self._started.append(send)
        if self._timer is None:
            self._poll_later()
        return attempt

    def _enqueue(self, send: Send, now_s: float) -> None:
        if send.endpoint.room(now_s, scarce=self._room_is_scarce) > 0:
            self._probation_waiting.append(send)
        else:
            self._waiting.setdefault(send.key, deque()).append(send)

    def _take_up(self, send: Send, now_s: float) -> None:
        """Decide again about a send that waits."""
        if send.wait is None or send.waits_no_more:
            return
        if send.endpoint.breaker.is_open:
            self._defer(send.wait, Deferral.OPEN)
        elif self._may_start(send.endpoint, now_s):
            self._leave_wait()
            self._start(send, now_s).add_done_callback(partial(copy_result, wait=send.wait))
        elif send.endpoint.timed_out:
            self._defer(send.wait, Deferral.BUSY)
        else:
            self._enqueue(send, now_s)

    def _defer(self, wait: asyncio.Future[Outcome | Deferral], why: Deferral) -> None:
        self._deferrals[why] += 1
        wait.set_result(why)

    def _leave_wait(self) -> None:
        self._waiting_count -= 1
        self._has_room.set()

    # -- ending -------------------------------------------------------------------------------------------------------

    def _end(self, send: Send, attempt: asyncio.Future[Outcome]) -> None:
        endpoint, now_s = send.endpoint, self._now_s()
        outcome = None if attempt.cancelled() or attempt.exception() is not None else attempt.result()
        was_open = endpoint.breaker.is_open
        endpoint.end(
            outcome, send.message_id, now_s, was_overdue=send.is_overdue, probe=send.is_probe, topic=send.topic
        )
        if send.is_overdue:
            self._count_overdue(-1)
        self._on_probation -= send.on_probation
        while self._started and self._started[0].has_ended:
            self._started.popleft()
        if endpoint.breaker.is_open != was_open:
            if was_open:
                del self._open[send.key]
            else:
                self._open[send.key] = endpoint
            event = "circuit_breaker.closed" if was_open else "circuit_breaker.opened"
            log.warning(event, endpoint=without_credentials(send.key))
        self._use_room(send.key, endpoint, now_s)
        while self._probation_waiting and self._on_probation < PROBATION_SENDS_MAX:
            self._take_up(self._probation_waiting.popleft(), now_s)

    def _use_room(self, key: str, endpoint: EndpointState, now_s: float) -> None:
        """Give the room that an endpoint has again to sends that wait, then to its lanes."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            while waiting and (endpoint.breaker.is_open or endpoint.room(now_s, scarce=self._room_is_scarce) > 0):
                self._take_up(waiting.popleft(), now_s)
            if waiting:
                return
            del self._waiting[key]
        if endpoint.breaker.is_open:
            if not endpoint.in_flight:  # the time of its next probe is known
                self._report_room(key, endpoint)
        elif endpoint.is_trusted:
            if endpoint.lane_waits and endpoint.room(now_s, scarce=self._room_is_scarce) > 0:
                self._report_room(key, endpoint)
        elif endpoint.room(now_s, scarce=self._room_is_scarce) > 0:
            self._try_later(key, endpoint)

    def _try_later(self, key: str, endpoint: EndpointState) -> None:
        """Note an endpoint on probation that has room."""
        (self._hung_to_try if endpoint.timed_out else self._unknown_to_try)[key] = None
        self._poll_later()

    def _report_room(self, key: str, endpoint: EndpointState) -> None:
        if endpoint.lane_waits:
            endpoint.lane_waits = False
            self.on_room(key)

    # -- polling ------------------------------------------------------------------------------------------------------

    def _poll_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        now_s = self._now_s()
        self._mark_overdue(now_s)
        self._end_waits(now_s)
        self._try_some(now_s)
        if self._started or self._deadlines or self._unknown_to_try or self._hung_to_try:
            self._poll_later()

    def _mark_overdue(self, now_s: float) -> None:
        while self._started and self._started[0].started_s + OVERDUE_S <= now_s:
            send = self._started.popleft()
            if send.has_ended:
                continue
            send.is_overdue = True
            send.endpoint.overdue += 1
            self._count_overdue(1)
            if not send.on_probation:  # it may hang, whatever its endpoint did before
                send.on_probation = True
                self._on_probation += 1

    def _count_overdue(self, change: int) -> None:
        self._overdue += change
        self._room_is_scarce = self._overdue * 2 >= HUNG_SENDS_MAX

    def _end_waits(self, now_s: float) -> None:
        """Defer sends that have waited too long, and in a crowd the oldest of the others."""
        too_many = min(self._waiting_count - CROWD, CROWD_DEFERRALS_A_POLL)
        deadlines = self._deadlines
        while deadlines and (too_many > 0 or deadlines[0][0] <= now_s):
            send = deadlines.popleft()[1]
            if not send.waits_no_more:
                too_many -= 1
                self._end_wait(send, now_s)

    def _end_wait(self, send: Send, now_s: float) -> None:
        if send.wait is not None:
            if send.endpoint.room(now_s, scarce=self._room_is_scarce) > 0 and not self._room_is_scarce:
                self._deadlines.append((now_s + WAIT_MAX_S, send))  # it waits for others on probation, which proceed
            else:
                self._defer(send.wait, Deferral.BUSY)
        for waiting in (self._waiting.get(send.key), self._probation_waiting):
            while waiting and waiting[0].waits_no_more:  # frees the memory that each holds
                waiting.popleft()

    def _try_some(self, now_s: float) -> None:
        """Let lanes try a few endpoints on probation, if there is room for that."""
        for keys, sends_max in ((self._unknown_to_try, PROBATION_SENDS_MAX), (self._hung_to_try, HUNG_SENDS_MAX)):
            if keys:
                paced = max(TRIED_A_POLL, ceil(len(keys) * POLL_INTERVAL_S / TRIED_WITHIN_S))
                for key in list(islice(keys, max(min(sends_max - self._on_probation, paced), 0))):
                    del keys[key]
                    endpoint = self._endpoint(key, now_s)
                    endpoint.probe_allowed = True
                    self._report_room(key, endpoint)

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000

    # -- remembering --------------------------------------------------------------------------------------------------

    def _endpoint(self, key: str, now_s: float) -> EndpointState:
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            endpoint = self._endpoints[key] = EndpointState(self._limits, self._hints.find(key))
            if len(self._endpoints) > ENDPOINTS_REMEMBERED:
                self._forget_one(now_s)
        else:
            self._endpoints.move_to_end(key)
        return endpoint

    def _forget_one(self, now_s: float) -> None:
        """Forget the least recently used endpoint, or keep it until all others were examined."""
        key, endpoint = next(iter(self._endpoints.items()))
        if endpoint.is_forgettable(now_s) and key not in self._waiting:
            del self._endpoints[key]
            self._open.pop(key, None)
            self._report_room(key, endpoint)
        else:
            self._endpoints.move_to_end(key)


def _ignore(_key: str) -> None:
    """No lane awaits room."""


def _shown(key: str) -> tuple[str, str]:
    """The account of an endpoint, and the endpoint without credentials: see `Target.endpoint_key`."""
    account, _, endpoint = key.partition(" ")
    return account, shown_endpoint(endpoint)


def _open_breaker(key: str, endpoint: EndpointState) -> OpenBreaker:
    account, shown = _shown(key)
    return OpenBreaker(
        account=account,
        endpoint=shown,
        since_ms=int(endpoint.breaker.opened_at_s * 1000),
        probe_at_ms=int(endpoint.breaker.probe_at_s * 1000),
        cause=endpoint.failure[:REASON_CHARS_MAX],
        in_flight=endpoint.in_flight,
        topics=endpoint.failing_topics,
    )
