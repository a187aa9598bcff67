"""Rates of the cluster form, counted in Redis by its clock, so that they hold across the workers of all machines.

Without Redis, a worker takes its share of each throttle: the rate divided by the number of workers that report. Mails
are then counted exactly, since one too many suspends a subscription: a mail takes one of the leases in Cassandra that
its second has. That is slower.
"""

from __future__ import annotations

import asyncio

import structlog

from cns_backend.stores.contract import LATE_MAIL_S, LeaseStore, RateStore, ServiceReports
from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.redis.pipe import PipeError, RedisPipe, ReplyError
from cns_common.token_bucket import TokenBucket, TokenGrant
from cns_common.worker_roles import WorkerRole

REDIS_TIMEOUT_S = 0.5
RETRY_S = 1.0
"""The time for which Redis is not asked after a failure."""
WORKERS_AGE_S = 2.0
"""The time for which the number of workers is used before it is read again."""
BUCKET_LIFE_MS = 2_000
"""The life of a bucket's key: longer than the second after which a bucket is full, so that it equals a new one."""
MAIL_LIFE_MS = 60_000
BUCKETS_MAX = 20_000
LEASE_TASK = "mail"

TAKE_TOKENS = """
local rate, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + tonumber(ARGV[3]) * 1000
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'at', 'rate')
local tokens, at = rate, now
if kept[3] == ARGV[1] then tokens, at = tonumber(kept[1]), tonumber(kept[2]) end
if at > now + 2000000 then at = now end  -- written by a server whose clock was ahead
tokens = math.min(rate, tokens + math.max(now - at, 0) * rate / 1000000)
local granted = math.min(wanted, math.floor(tokens + 0.000001))
tokens = math.max(tokens - granted, 0)
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.0f', math.max(at, now)),
  'rate', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local wait = 0
if granted == 0 then wait = math.ceil((math.min(wanted, rate) - tokens) * 1000000 / rate) end
return {granted, wait}
"""
"""Returns the tokens, and microseconds until there are more."""

ADMIT_MAIL = """
local second, limit, late = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local newest = tonumber(redis.call('HGET', KEYS[1], 'newest')) or second
if second <= newest - late then return 1 end
if second >= newest then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local of = tonumber(string.match(field, '^(%d+):'))
    if of and of <= second - late then redis.call('HDEL', KEYS[1], field) end
  end
  redis.call('HSET', KEYS[1], 'newest', ARGV[1])
end
local mail = ARGV[1] .. ':' .. ARGV[2]
if redis.call('HEXISTS', KEYS[1], mail) == 1 then return 1 end
local count = 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.match(field, '^(%d+):') == ARGV[1] then count = count + 1 end
end
if count >= limit then return 0 end
redis.call('HSET', KEYS[1], mail, '')
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
"""

log = structlog.get_logger(__name__)


class RedisRateStore(RateStore):
    def __init__(self, redis_url: str, prefix: str, leases: LeaseStore, reports: ServiceReports, clock: Clock) -> None:
        """An empty `redis_url`: there is no Redis. The connection is made at the first request."""
        self._pipe = RedisPipe(redis_url, REDIS_TIMEOUT_S) if redis_url else None
        self._prefix = prefix
        self._leases = leases
        self._clock = clock
        self._share = _Share(reports, clock)
        self._away_until_s = 0.0
        self._is_away = False

    async def close(self) -> None:
        if self._pipe is not None:
            await self._pipe.end()

    async def take_tokens(self, bucket: str, per_second: int, wanted: int) -> TokenGrant:
        arguments = (per_second, wanted, self._clock.offset_ms, BUCKET_LIFE_MS)
        answer = await self._ask(TAKE_TOKENS, f"throttle:{bucket}", *arguments)
        if isinstance(answer, list):
            return TokenGrant(answer[0], answer[1] / 1_000_000)
        return await self._share.take(bucket, per_second, wanted)

    async def admit_mail(self, subscription: str, second: int, message_id: str, limit: int) -> bool:
        arguments = (second, message_id, limit, LATE_MAIL_S, MAIL_LIFE_MS)
        answer = await self._ask(ADMIT_MAIL, f"mails:{subscription}", *arguments)
        if isinstance(answer, int):
            return bool(answer)
        return await self._lease_mail(subscription, second, message_id, limit)

    async def _ask(self, script: str, key: str, *arguments: str | int) -> object:
        """Returns None when Redis cannot be asked."""
        loop = asyncio.get_running_loop()
        if self._pipe is None or loop.time() < self._away_until_s:
            return None
        try:
            connection = await self._pipe.connection()
            answer: object = await connection.execute("EVAL", script, 1, self._prefix + key, *arguments)
        except (PipeError, ReplyError, OSError) as error:
            self._away_until_s = loop.time() + RETRY_S
            if not self._is_away:
                log.warning("rates.redis_lost", error=str(error))
            self._is_away = True
            return None
        if self._is_away:
            log.info("rates.redis_recovered")
        self._is_away = False
        return answer

    async def _lease_mail(self, subscription: str, second: int, message_id: str, limit: int) -> bool:
        """A mail takes one of the `limit` leases of its second; a repeated mail finds the lease that it has."""
        now_ms = self._clock.now_ms()
        if second * 1000 <= now_ms - MAIL_LIFE_MS:  # it is late: see `cns.mail.rate_limit`
            return True
        for place in range(limit):
            part = f"{subscription}/{second}/{place}"
            if await self._leases.take(LEASE_TASK, part, message_id, MAIL_LIFE_MS, now_ms):
                return True
        return False


class _Share:
    """This worker's part of the rates."""

    def __init__(self, reports: ServiceReports, clock: Clock) -> None:
        self._reports = reports
        self._clock = clock
        self._buckets: BoundedCache[str, TokenBucket] = BoundedCache(BUCKETS_MAX)
        self._workers = 1
        self._workers_read_s = float("-inf")

    async def take(self, bucket: str, per_second: int, wanted: int) -> TokenGrant:
        share = per_second / await self._live_workers()
        now_s = self._clock.now_ms() / 1000
        found = self._buckets.get(bucket)
        if found is None or found.per_second != share:
            found = TokenBucket(share, now_s, empty=True)  # other workers may have used this second's tokens
            self._buckets.put(bucket, found)
        return found.take(now_s, wanted)

    async def _live_workers(self) -> int:
        """The number of workers that deliver, as it was known last."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._workers_read_s + WORKERS_AGE_S:
            return self._workers
        self._workers_read_s = now_s
        try:
            state = await self._reports.state()
        except (StoreUnavailable, OutcomeUnknown):
            return self._workers
        consumers = [
            report
            for report in state.reports
            if report.role == "worker" and (not report.roles or WorkerRole.CONSUMER in report.roles)
        ]
        if consumers:
            self._workers = len(consumers)
        return self._workers
