"""The atomic operations in Redis, as Lua scripts. Each script is prefixed with `HEAD`, which names a queue's keys.

The keys of a queue: `z`, all messages by the time at which they become visible; `f`, the delivered ones of them; `m`,
their delivery records "deliveries:lease:first received"; `d`, messages deleted during a fill; `x`, messages removed for
a delete, by time, until their rows are deleted; `e`, the epoch. An epoch of another run of the server (a loaded
snapshot, a replica that took over) does not count.
"""

from __future__ import annotations

PARTS = "zfmdxe"
HEAD = """
local z, f, m, d, x, e = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local run = ARGV[1]
local function current() return redis.call('HGET', e, 'run') == run end
local function delivered(member)
  local text = redis.call('HGET', m, member)
  if not text then return 0, 0, 0 end
  local d, l, a = string.match(text, '^(%d+):(%d+):(%d+)$')
  return tonumber(d), tonumber(l), tonumber(a)
end
local function keep(member, deliveries, lease, first_at, due)
  redis.call('HSET', m, member, string.format('%d:%d:%.0f', deliveries, lease, first_at))
  redis.call('ZADD', f, due, member)
end
local function lost() return redis.call('HGET', e, 'state') ~= 'ok' end
-- DONE 0, GONE 1 and STALE 2 as in the contract; 8: STALE, since Redis lost the visibility of the delivery and the
-- message was delivered again; 9: unknown here, ask the rows. A lease below 0 counts as the newest delivery.
local function judge(member, epoch, lease)
  if not redis.call('ZSCORE', z, member) then
    if lost() then return 9 end
    return 1
  end
  local _, newest = delivered(member)
  if redis.call('HGET', e, 'epoch') ~= epoch then return newest > 0 and 8 or 0 end
  if lease >= 0 and newest > lease then return 2 end
  return 0
end
local function add(at, except)
  local added, visible, due = 0, 0, ''
  local now = tonumber(ARGV[2])
  for i = at, #ARGV, 4 do
    local member, score, deliveries = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local leaving = redis.call('SISMEMBER', d, member) == 1 or except and redis.call('ZSCORE', except, member)
    if not leaving and redis.call('ZADD', z, 'NX', score, member) == 1 then
      added = added + 1
      if deliveries > 0 then keep(member, deliveries, 0, tonumber(ARGV[i + 3]), score) end
      if score <= now then visible = visible + 1
      elseif due == '' or score < tonumber(due) then due = ARGV[i + 1] end
    end
  end
  return added, visible, due
end
local function notify(visible, due)
  if visible > 0 or due ~= '' then redis.call('PUBLISH', e, visible .. ':' .. due) end
end
"""

ADD = """
if not current() then return false end
local _, visible, due = add(3)
notify(visible, due)
return tonumber(redis.call('HGET', e, 'generation'))
"""

UNDO_DELETE = """
if not current() then return 0 end
for i = 3, #ARGV, 4 do
  redis.call('SREM', d, ARGV[i])
  redis.call('ZREM', x, ARGV[i])
end
local _, visible, due = add(3)
notify(visible, due)
return 1
"""

LEASE = """
if not current() then return false end
if redis.call('HGET', e, 'generation') == '-1' then return {'', 0, 2, ''} end
local now, want, due = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local limit, in_flight_max, spent_due = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local filling = lost() and 1 or 0
local room = in_flight_max - redis.call('ZCOUNT', f, string.format('(%.0f', now), '+inf')
if room <= 0 then return {'', filling, 1, ''} end
local members = redis.call('ZRANGEBYSCORE', z, '-inf', now, 'LIMIT', 0, math.min(want, room))
if filling == 1 and ARGV[8] == '1' and #members < want then return {'', 1, 0, ''} end
local function next_due()
  return redis.call('ZRANGEBYSCORE', z, string.format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
end
if #members == 0 then return {'', filling, 0, next_due()} end
local lease = redis.call('HINCRBY', e, 'lease', 1)
local answer = {redis.call('HGET', e, 'epoch'), filling, 0, '', lease}
for _, member in ipairs(members) do
  local deliveries, _, first_at = delivered(member)
  local spent = limit > 0 and deliveries >= limit
  local until_ms = due
  if spent then until_ms = spent_due
  else
    deliveries = deliveries + 1
    if first_at == 0 then first_at = now end
  end
  keep(member, deliveries, lease, first_at, until_ms)
  redis.call('ZADD', z, until_ms, member)
  table.insert(answer, member)
  table.insert(answer, deliveries)
  table.insert(answer, string.format('%.0f', first_at))
  table.insert(answer, spent and 1 or 0)
end
answer[4] = next_due()
return answer
"""

BEGIN_DELETE = """
if not current() then return false end
local outcomes = {}
for i = 3, #ARGV, 3 do
  local member = ARGV[i]
  local outcome = judge(member, ARGV[i + 1], tonumber(ARGV[i + 2]))
  if outcome ~= 1 and outcome ~= 2 and lost() then redis.call('SADD', d, member) end
  if outcome == 0 or outcome == 8 then
    redis.call('ZADD', x, ARGV[2], member)
    redis.call('ZREM', z, member)
    redis.call('ZREM', f, member)
    redis.call('HDEL', m, member)
  end
  table.insert(outcomes, outcome)
end
return outcomes
"""

CHECK = """
if not current() then return false end
return judge(ARGV[2], ARGV[3], tonumber(ARGV[4]))
"""

SET_VISIBLE_AT = """
if not current() then return false end
local member, epoch, lease, due, now = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local outcome = judge(member, epoch, lease)
if outcome == 0 or (outcome == 8 and lease < 0) then
  redis.call('ZADD', z, 'XX', due, member)
  redis.call('ZADD', f, due, member)
  if due <= now then notify(1, '') else notify(0, ARGV[5]) end
end
return outcome
"""

KEEP_HIDDEN = """
if not current() then return 0 end
for i = 2, #ARGV, 4 do
  local member, due = ARGV[i], tonumber(ARGV[i + 1])
  local score = redis.call('ZSCORE', z, member)
  if not score or tonumber(score) < due then
    local deliveries, _, first_at = delivered(member)
    redis.call('ZADD', z, due, member)
    keep(member, math.max(deliveries, tonumber(ARGV[i + 2])), 0, math.max(first_at, tonumber(ARGV[i + 3])), due)
  end
end
return 1
"""

FINISH_DELETES = """
redis.call('ZREM', x, unpack(ARGV, 2))
return 1
"""

UNFINISHED_DELETES = """
return redis.call('ZRANGEBYSCORE', x, '-inf', ARGV[2], 'LIMIT', 0, 1000)
"""

FORGET = """
for i = 2, #ARGV do
  redis.call('ZREM', z, ARGV[i])
  redis.call('ZREM', f, ARGV[i])
  redis.call('HDEL', m, ARGV[i])
end
return 0
"""

COUNTS = """
if not current() or (ARGV[3] == '1' and lost()) then return false end
local now = tonumber(ARGV[2])
local visible = redis.call('ZCOUNT', z, '-inf', now)
local in_flight = redis.call('ZCOUNT', f, string.format('(%.0f', now), '+inf')
return {visible, in_flight, redis.call('ZCARD', z) - visible - in_flight}
"""

PAGE = """
if not current() or (ARGV[5] == '1' and lost()) then return false end
local from, after, n = ARGV[2], ARGV[3], tonumber(ARGV[4])
local answer, offset = {}, 0
repeat
  local found = redis.call('ZRANGEBYSCORE', z, from, '+inf', 'WITHSCORES', 'LIMIT', offset, n)
  for i = 1, #found, 2 do
    local member, due = found[i], tonumber(found[i + 1])
    if (due > tonumber(from) or member > after) and #answer < 4 * n then
      local deliveries, _, first_at = delivered(member)
      table.insert(answer, member)
      table.insert(answer, string.format('%.0f', due))
      table.insert(answer, deliveries)
      table.insert(answer, string.format('%.0f', first_at))
    end
  end
  offset = offset + n
until #found < 2 * n or #answer >= 4 * n
return answer
"""

BEGIN_EPOCH = """
local generation, filler, epoch, now, life = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local has = current() and tonumber(redis.call('HGET', e, 'generation'))
if has and (has < 0 or has >= tonumber(generation)) then
  if not lost() then return -1 end
  if tonumber(redis.call('HGET', e, 'filler_until')) > now then return -2 end
  generation = has
else
  redis.call('UNLINK', z, f, m, d, x, e)
  redis.call('HSET', e, 'run', run, 'epoch', epoch, 'generation', generation, 'state', 'filling', 'lease', 0)
end
redis.call('HSET', e, 'filler', filler, 'filler_until', now + life)
return tonumber(generation)
"""

FILL_PAGE = """
if not current() or redis.call('HGET', e, 'filler') ~= ARGV[3] then return 0 end
redis.call('HSET', e, 'filler_until', ARGV[4])
local _, visible, due = add(5)
notify(visible, due)
return 1
"""

END_FILL = """
if current() and redis.call('HGET', e, 'filler') == ARGV[2] then
  redis.call('HSET', e, 'state', 'ok')
  redis.call('UNLINK', d)
end
return 0
"""

ADD_MISSING = """
if not current() then return 0 end
local added, visible, due = add(3, x)
notify(visible, due)
return added
"""

RESET = """
redis.call('UNLINK', z, f, m, d, x, e)
redis.call('HSET', e, 'run', run, 'epoch', ARGV[3], 'generation', ARGV[2], 'state', 'filling', 'lease', 0,
  'filler', '', 'filler_until', 0)
if ARGV[2] == '-1' then
  redis.call('HSET', e, 'state', 'ok')
  redis.call('PEXPIRE', e, ARGV[4])
end
redis.call('PUBLISH', e, '1000000:')
return 0
"""
