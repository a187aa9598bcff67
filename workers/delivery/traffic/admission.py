"""Lets sends begin as their endpoints bear them; what cannot begin is put aside, and leaves the pool to the others.

A send begins at once where its endpoint has room. Else it waits for a second, or less in a crowd, and is then put
aside into its lane (`workers.consumers.lane_consumer`); where the breaker is open or an answer is overdue it does not
wait. Endpoints without history, and endpoints that may hang, share a bounded part of the pools, so that they cannot
fill the pools.

All of it runs on one event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from math import ceil

import structlog

from cns.endpoints.outcome import Outcome
from cns_common.clock import Clock
from cns_common.metrics.catalogue import CIRCUIT_BREAKERS_OPEN, SENDS_DEFERRED, SENDS_ON_PROBATION, SENDS_OVERDUE
from cns_common.metrics.model import Sample
from workers.delivery.traffic.endpoint_state import BLOCKED_S, OVERDUE_S, Endpoint, Terms
from workers.delivery.traffic.sends import Aside, Attempt, Begin, Send, has_ended, is_done_with, pass_on
from workers.delivery.traffic.token_bucket import Throttle

PATIENCE_S = 1.0
UNPROVEN_MAX = 900
"""Sends under way to endpoints that nobody knows yet, or that left the last one without an answer in time. One thread
of a pool has room for them."""
HUNG_MAX = 500
"""With so many under way no endpoint that hung is tried again: who comes anew finds room, and need not wait until those
time out."""
WAITING_MAX = 2_000
"""Sends that wait here before more jobs are taken: those stay in their queue, where tenants take turns, and a hundred
targets of theirs are one row, not one each as when they were put aside."""
CROWD = WAITING_MAX // 2
"""From so many on a hundred give way with each look, so that what is received next need not wait for their patience to
end."""
GIVE_WAY_A_LOOK = 100
ENDPOINTS_REMEMBERED = 20_000
LOOK_S = 0.05
"""So few lose patience at once that nobody feels how they are put aside."""
TRIED_A_LOOK = 2
"""Endpoints that may hang are tried from their lanes one after another: sends that began together time out together,
and so would all that follow them. It is more than ever time out: 500 sends, of 15 s each."""
TRIED_WITHIN_S = 10.0
"""Or so many that each waits for about so long: thousands that hang no more are soon known to work."""

_CREDENTIALS = re.compile(r"//[^/@]*@")

log = structlog.get_logger(__name__)


class Traffic:
    def __init__(self, terms: Terms, clock: Clock) -> None:
        self._terms = terms
        self._clock = clock
        self._endpoints: OrderedDict[str, Endpoint] = OrderedDict()
        self._throttles: OrderedDict[str, Throttle] = OrderedDict()
        self._waiting: dict[str, deque[Send]] = {}  # by endpoint: for its own room
        self._unproven_waiting: deque[Send] = deque()  # for room among the unproven
        self._unknown: dict[str, None] = {}  # endpoints that nobody knows and that have room: for a turn to be tried
        self._hung: dict[str, None] = {}  # the same of those that hung
        self._unproven = 0
        self._overdue = 0
        self._open = 0
        self._fresh: deque[Send] = deque()  # begun, in that order
        self._impatient: deque[tuple[float, Send]] = deque()
        self._in_line = 0
        self._room = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._aside: dict[Aside, int] = dict.fromkeys(Aside, 0)
        self.room_again: list[Callable[[str], None]] = []
        """Called with the key of an endpoint that had none, and of one whose next try is known by now."""

    def start(self, key: str, message_id: str, begin: Begin) -> Attempt:
        """Of a send to the endpoint that `key` stands for."""
        now_s = self._now_s()
        endpoint = self._endpoint(key, now_s)
        send = Send(key, endpoint, message_id, begin)
        if self._may_begin(endpoint, now_s):
            return self._begin(send, now_s)
        wait: asyncio.Future[Outcome | Aside] = asyncio.get_running_loop().create_future()
        if endpoint.open or endpoint.overdue or endpoint.hung or self._stopped:
            self._put_aside(wait, Aside.OPEN if endpoint.open else Aside.BUSY)
            return wait
        send.wait = wait
        self._in_line += 1
        wait.add_done_callback(lambda _: self._left_line() if send.attempt is None else None)
        self._enqueue(send, now_s)
        self._impatient.append((now_s + PATIENCE_S, send))
        self._look_later()
        return wait

    def _left_line(self) -> None:
        self._in_line -= 1
        self._room.set()

    async def room(self) -> int:
        """How many more may be asked to begin; waits until there is one."""
        while self._in_line >= WAITING_MAX:
            self._room.clear()
            await self._room.wait()
        return WAITING_MAX - self._in_line

    def put_aside(self, why: Aside) -> Attempt:
        """For one that has to go through its lane."""
        wait: asyncio.Future[Outcome | Aside] = asyncio.get_running_loop().create_future()
        self._put_aside(wait, why)
        return wait

    def stop(self) -> None:
        """Nothing waits from now on: what cannot begin is put aside."""
        self._stopped = True
        for _, send in self._impatient:
            if send.wait is not None and not is_done_with(send):
                self._put_aside(send.wait, Aside.BUSY)
        self._impatient.clear()

    def wait_s(self, key: str) -> float:
        """0: a send would begin at once. Else how long until one may, unless `room_again` is called before."""
        now_s = self._now_s()
        endpoint = self._endpoint(key, now_s)
        if self._may_begin(endpoint, now_s):
            return 0.0
        if endpoint.room(now_s, pressed=self._pressed) > 0:
            self._try_later(key, endpoint)
            return BLOCKED_S
        return endpoint.next_try_s(now_s) - now_s

    def take_turn(self, subscription: str, per_second: int, wanted: int) -> float:
        """See `Throttle.take_turn`; of the subscription's."""
        now_s = self._now_s()
        throttle = self._throttles.get(subscription)
        if throttle is None or throttle.per_second != per_second:
            throttle = self._throttles[subscription] = Throttle(per_second, now_s)
            if len(self._throttles) > ENDPOINTS_REMEMBERED:
                self._throttles.popitem(last=False)
        self._throttles.move_to_end(subscription)
        return throttle.take_turn(now_s, wanted)

    def samples(self) -> list[Sample]:
        return [
            CIRCUIT_BREAKERS_OPEN.sample(self._open),
            SENDS_OVERDUE.sample(self._overdue),
            SENDS_ON_PROBATION.sample(self._unproven),
            *[SENDS_DEFERRED.sample(n, cause=str(why)) for why, n in self._aside.items()],
        ]

    # -- beginning ----------------------------------------------------------------------------------------------------

    def _may_begin(self, endpoint: Endpoint, now_s: float) -> bool:
        if endpoint.room(now_s, pressed=self._pressed) <= 0:
            return False
        if endpoint.hung:
            return self._unproven < HUNG_MAX and (endpoint.turn or endpoint.open)  # whose pauses are turns, too
        return endpoint.proven or self._unproven < UNPROVEN_MAX

    def _begin(self, send: Send, now_s: float) -> asyncio.Future[Outcome]:
        endpoint = send.endpoint
        send.attempt = attempt = send.begin()
        send.probe = endpoint.began()
        send.began_s = now_s
        if not endpoint.proven:
            send.counted = True
            self._unproven += 1
        attempt.add_done_callback(partial(self._ended, send))
        self._fresh.append(send)
        if self._timer is None:
            self._look_later()
        return attempt

    def _enqueue(self, send: Send, now_s: float) -> None:
        if send.endpoint.room(now_s, pressed=self._pressed) > 0:
            self._unproven_waiting.append(send)
        else:
            self._waiting.setdefault(send.key, deque()).append(send)

    def _begin_waiting(self, send: Send, now_s: float) -> None:
        wait = send.wait
        assert wait is not None
        self._left_line()
        self._begin(send, now_s).add_done_callback(partial(pass_on, wait))

    # -- ending -------------------------------------------------------------------------------------------------------

    def _ended(self, send: Send, attempt: asyncio.Future[Outcome]) -> None:
        endpoint, now_s = send.endpoint, self._now_s()
        outcome = None if attempt.cancelled() or attempt.exception() is not None else attempt.result()
        was_open = endpoint.open
        endpoint.ended(outcome, send.message_id, now_s, was_late=send.late, probe=send.probe)
        self._overdue -= send.late
        self._unproven -= send.counted
        while self._fresh and has_ended(self._fresh[0]):
            self._fresh.popleft()
        if endpoint.open != was_open:
            self._open += 1 if endpoint.open else -1
            log.warning(
                "circuit_breaker.opened" if endpoint.open else "circuit_breaker.closed", endpoint=_shown(send.key)
            )
        self._fill(send.key, endpoint, now_s)
        while self._unproven_waiting and self._unproven < UNPROVEN_MAX:
            self._take_up(self._unproven_waiting.popleft(), now_s)

    def _fill(self, key: str, endpoint: Endpoint, now_s: float) -> None:
        """Use the room that an endpoint has again."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            while waiting and (endpoint.open or endpoint.room(now_s, pressed=self._pressed) > 0):
                self._take_up(waiting.popleft(), now_s)
            if waiting:
                return
            del self._waiting[key]
        if endpoint.open:
            if not endpoint.in_flight:  # it is known when its next probe is
                self._tell(key)
        elif endpoint.room(now_s, pressed=self._pressed) > 0:
            if endpoint.proven:
                self._tell(key)
            else:
                self._try_later(key, endpoint)

    def _try_later(self, key: str, endpoint: Endpoint) -> None:
        """It has room, and hung, or is unknown."""
        (self._hung if endpoint.hung else self._unknown)[key] = None
        self._look_later()

    def _try_some(self) -> None:
        """Tell of a few endpoints that they have room, if there is some for the unproven, too."""
        for keys, most in ((self._unknown, UNPROVEN_MAX), (self._hung, HUNG_MAX)):
            paced = max(TRIED_A_LOOK, ceil(len(keys) * LOOK_S / TRIED_WITHIN_S))
            for key in list(islice(keys, max(min(most - self._unproven, paced), 0))):
                del keys[key]
                self._endpoint(key, self._now_s()).turn = True
                self._tell(key)

    def _tell(self, key: str) -> None:
        for tell in self.room_again:
            tell(key)

    def _take_up(self, send: Send, now_s: float) -> None:
        if send.wait is None or is_done_with(send):
            return
        if send.endpoint.open:
            self._put_aside(send.wait, Aside.OPEN)
        elif self._may_begin(send.endpoint, now_s):
            self._begin_waiting(send, now_s)
        elif send.endpoint.hung:
            self._put_aside(send.wait, Aside.BUSY)
        else:
            self._enqueue(send, now_s)

    def _put_aside(self, wait: asyncio.Future[Outcome | Aside], why: Aside) -> None:
        self._aside[why] += 1
        wait.set_result(why)

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def _pressed(self) -> bool:
        return self._overdue * 2 >= HUNG_MAX

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Which sends have become overdue, and which have waited for too long."""
        self._timer = None
        now_s = self._now_s()
        fresh = self._fresh
        while fresh and fresh[0].began_s + OVERDUE_S <= now_s:
            self._see(fresh.popleft())
        impatient = self._impatient
        too_many = min(self._in_line - CROWD, GIVE_WAY_A_LOOK)  # who waited for longest makes room in time
        while impatient and (too_many > 0 or impatient[0][0] <= now_s):
            send = impatient.popleft()[1]
            if not is_done_with(send):
                too_many -= 1
                self._lose_patience(send, now_s)
        self._try_some()
        if fresh or impatient or self._unknown or self._hung:
            self._look_later()

    def _see(self, send: Send) -> None:
        if not has_ended(send):
            send.late = True
            send.endpoint.late()
            self._overdue += 1
            if not send.counted:  # it takes from the room of those that may hang, whatever it did before
                send.counted = True
                self._unproven += 1

    def _lose_patience(self, send: Send, now_s: float) -> None:
        wait = send.wait
        if wait is not None:
            if send.endpoint.room(now_s, pressed=self._pressed) > 0 and not self._pressed:
                self._impatient.append((now_s + PATIENCE_S, send))  # it is the others' turn, and they move on
            else:
                self._put_aside(wait, Aside.BUSY)
        for waiting in (self._waiting.get(send.key), self._unproven_waiting):
            while waiting and is_done_with(waiting[0]):  # each has what it is to send in memory
                waiting.popleft()

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000

    # -- remembering --------------------------------------------------------------------------------------------------

    def _endpoint(self, key: str, now_s: float) -> Endpoint:
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            endpoint = self._endpoints[key] = Endpoint(self._terms)
            if len(self._endpoints) > ENDPOINTS_REMEMBERED:
                self._forget_one(now_s)
        else:
            self._endpoints.move_to_end(key)
        return endpoint

    def _forget_one(self, now_s: float) -> None:
        """The one that nobody asked for for longest, if it can go; else it is looked at again after all others."""
        oldest, endpoint = next(iter(self._endpoints.items()))
        if endpoint.forgettable(now_s) and oldest not in self._waiting:
            del self._endpoints[oldest]
            self._open -= endpoint.open
        else:
            self._endpoints.move_to_end(oldest)


def _shown(key: str) -> str:
    """Without the credentials that a URL may have in it."""
    return _CREDENTIALS.sub("//****@", key)
