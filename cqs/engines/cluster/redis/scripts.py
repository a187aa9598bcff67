"""The atomic operations in Redis, as Lua scripts. Each script is prefixed with `HEAD`, which names a queue's keys.

The keys of a queue: `z`, all messages by the time at which they become visible; `f`, those of them that were delivered;
`m`, their delivery records "deliveries:lease:first received"; `d`, messages deleted during a fill; `x`, messages
removed for a delete, by time, until their rows are deleted; `e`, the epoch. `z` also has a member '', so that it always
exists. An epoch is invalid if it is of another run of the server (a loaded snapshot, a replica that took over), of an
earlier epoch of the processes (both are in `run`), or if `z` is missing.

Redis' clock decides what is visible. A caller passes `times`, "now:clock": the time of its call, which has a test
clock's offset, and what its clock says as it calls. If that clock differs from Redis' by more than `TOLERATED_MS`, all
times of the call are moved by the difference.

Messages that are added are four words each: the member, followed by the message's tenant if it has one; when it becomes
visible; its deliveries; when the first one was. If one of them has a tenant, `times` ends with "t". `fair_scripts` has
what fair queues need besides.
"""

from __future__ import annotations

from cqs.engines.cluster.redis import fair_scripts

PARTS = "zfmdxe"
FAIR_PARTS = fair_scripts.PARTS
"""Keys that only fair queues have. Lua names them, so that calls for other queues need not."""
TOLERATED_MS = 250
HEAD = (
    f"local TOLERATED_MS, MEMBER = {TOLERATED_MS}, {fair_scripts.MEMBER_LENGTH}"
    + """
local z, f, m, d, x, e = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local run = ARGV[1]
local known = redis.call('HMGET', e, 'run', 'state', 'epoch', 'generation', 'fair')
local state, own_epoch, generation = known[2], known[3], tonumber(known[4])
local F -- functions for a queue that is fair or becomes it
if known[5] or string.sub(ARGV[2] or '', -1) == 't' then
"""
    + fair_scripts.FAIR
    + """
end
local function server_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
-- the time of the call by Redis' clock, and how far the caller's clock is ahead of it
local function read_times(times)
  local now, clock = string.match(times, '^(%-?%d+):(%-?%d+)t?$')
  local ahead = tonumber(clock) - server_ms()
  if math.abs(ahead) <= TOLERATED_MS then ahead = 0 end
  return tonumber(now) - ahead, ahead
end
local function current() return known[1] == run and redis.call('ZSCORE', z, '') ~= false end
local function trusted_in(text) return tonumber(string.match(text or '', '^(%d+):') or '0') end
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
local function lost() return state ~= 'ok' end
-- DONE 0, GONE 1 and STALE 2 as in the contract; 8: STALE, since Redis lost the visibility of the delivery and the
-- message was delivered again; 9: unknown here, ask the rows; 10 and 11: DONE and GONE, but the delivery is of another
-- epoch. A lease below 0 counts as the newest delivery.
local function judge(member, epoch, lease)
  local here = own_epoch == epoch
  if not redis.call('ZSCORE', z, member) then
    if lost() then return 9 end
    return here and 1 or 11
  end
  local _, newest = delivered(member)
  if not here then return newest > 0 and 8 or 10 end
  if lease >= 0 and newest > lease then return 2 end
  return 0
end
local function add(at, except)
  local added, visible, due = 0, 0, ''
  local now, ahead = read_times(ARGV[2])
  if F then F.begin(now) end
  for i = at, #ARGV, 4 do
    local member, score, deliveries = ARGV[i], tonumber(ARGV[i + 1]) - ahead, tonumber(ARGV[i + 2])
    local tenant = ''
    if F then member, tenant = string.sub(member, 1, MEMBER), string.sub(member, MEMBER + 1) end
    local leaving = redis.call('SISMEMBER', d, member) == 1 or except and redis.call('ZSCORE', except, member)
    if F and not leaving then F.adopt(member, score, deliveries > 0, now, tenant) end
    if not leaving and redis.call('ZADD', z, 'NX', score, member) == 1 then
      added = added + 1
      if deliveries > 0 then keep(member, deliveries, 0, tonumber(ARGV[i + 3]), score) end
      if score <= now then visible = visible + 1
      elseif due == '' or score < tonumber(due) then due = string.format('%.0f', score) end
    end
  end
  if F then F.flush() end
  return added, visible, due
end
local function notify(visible, due)
  if visible > 0 or due ~= '' then redis.call('PUBLISH', e, visible .. ':' .. due) end
end
"""
)

ADD = """
if not current() then return false end
local _, visible, due = add(3)
notify(visible, due)
return generation
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
if generation == -1 then return {'', 0, 2, ''} end
local now, ahead = read_times(ARGV[2])
local want, due = tonumber(ARGV[3]), tonumber(ARGV[4]) - ahead
local limit, in_flight_max, spent_due = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]) - ahead
local filling = lost() and 1 or 0
local room = in_flight_max - redis.call('ZCOUNT', f, string.format('(%.0f', now), '+inf')
if room <= 0 then return {'', filling, 1, ''} end
local loud = F and F.noisy_tenants(now)
local members
if loud and #loud > 0 then members = F.pick(math.min(want, room), now, loud)
else members = redis.call('ZRANGEBYSCORE', z, '-inf', now, 'LIMIT', 0, math.min(want, room)) end
if filling == 1 and ARGV[8] == '1' and #members < want then return {'', 1, 0, ''} end
local function next_due()
  local found = redis.call('ZRANGEBYSCORE', z, string.format('(%.0f', now), '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return found and string.format('%.0f', tonumber(found) + ahead) or ''
end
if #members == 0 then return {'', filling, 0, next_due()} end
local lease = redis.call('HINCRBY', e, 'lease', 1)
local answer = {own_epoch, filling, 0, '', lease}
for _, member in ipairs(members) do
  local deliveries, _, first_at = delivered(member)
  local spent = limit > 0 and deliveries >= limit
  local until_ms = due
  if spent then until_ms = spent_due
  else
    deliveries = deliveries + 1
    if first_at == 0 then first_at = now + ahead end
  end
  if F then F.track(member, until_ms, true, now) end
  keep(member, deliveries, lease, first_at, until_ms)
  redis.call('ZADD', z, until_ms, member)
  table.insert(answer, member)
  table.insert(answer, deliveries)
  table.insert(answer, string.format('%.0f', first_at))
  table.insert(answer, spent and 1 or 0)
end
if F then F.flush() end
answer[4] = next_due()
return answer
"""

UNDO_LEASE = """
-- lease 0: whoever received the message before may still settle it
if not current() or own_epoch ~= ARGV[3] then return 0 end
local now, lease, visible = read_times(ARGV[2]), tonumber(ARGV[4]), 0
for i = 5, #ARGV, 2 do
  local member = ARGV[i]
  local deliveries, newest, first_at = delivered(member)
  if newest == lease and redis.call('ZSCORE', z, member) then
    visible = visible + 1
    if ARGV[i + 1] == '0' then deliveries = deliveries - 1 end
    if F then F.track(member, now, deliveries > 0, now) end
    redis.call('ZADD', z, now, member)
    if deliveries > 0 then keep(member, deliveries, 0, first_at, now)
    else
      redis.call('HDEL', m, member)
      redis.call('ZREM', f, member)
    end
  end
end
if F then F.flush() end
notify(visible, '')
return visible
"""

BEGIN_DELETE = """
if not current() then return false end
local outcomes, now = {}, F and read_times(ARGV[2])
for i = 3, #ARGV, 3 do
  local member = ARGV[i]
  local outcome = judge(member, ARGV[i + 1], tonumber(ARGV[i + 2]))
  if outcome ~= 1 and outcome ~= 2 and outcome ~= 11 and lost() then redis.call('SADD', d, member) end
  if outcome == 0 or outcome == 8 or outcome == 10 then
    if F then F.track(member, nil, false, now) end
    redis.call('ZADD', x, server_ms(), member)
    redis.call('ZREM', z, member)
    redis.call('ZREM', f, member)
    redis.call('HDEL', m, member)
  end
  table.insert(outcomes, outcome)
end
if F then F.flush() end
return outcomes
"""

CHECK = """
if not current() then return false end
return judge(ARGV[2], ARGV[3], tonumber(ARGV[4]))
"""

SET_VISIBLE_AT = """
if not current() then return false end
local member, epoch, lease, now, ahead = ARGV[2], ARGV[3], tonumber(ARGV[4]), read_times(ARGV[6])
local due = tonumber(ARGV[5]) - ahead
local outcome = judge(member, epoch, lease)
if outcome == 0 or outcome == 10 or (outcome == 8 and lease < 0) then
  if F then
    F.track(member, due, true, now)
    F.flush()
  end
  redis.call('ZADD', z, 'XX', due, member)
  redis.call('ZADD', f, due, member)
  if due <= now then notify(1, '') else notify(0, string.format('%.0f', due)) end
end
return outcome
"""

KEEP_HIDDEN = """
if not current() then return 0 end
local now, ahead = read_times(ARGV[2])
if F then F.begin(now) end
for i = 3, #ARGV, 4 do
  local member, due, tenant = ARGV[i], tonumber(ARGV[i + 1]) - ahead, nil
  if #member > MEMBER then member, tenant = string.sub(member, 1, MEMBER), string.sub(member, MEMBER + 1) end
  local score = redis.call('ZSCORE', z, member)
  if not score or tonumber(score) < due then
    local deliveries, _, first_at = delivered(member)
    if F then F.track(member, due, true, now, tenant) end
    redis.call('ZADD', z, due, member)
    keep(member, math.max(deliveries, tonumber(ARGV[i + 2])), 0, math.max(first_at, tonumber(ARGV[i + 3])), due)
  end
end
if F then F.flush() end
return 1
"""

FINISH_DELETES = """
redis.call('ZREM', x, unpack(ARGV, 2))
if current() and F then F.forget_tenants({unpack(ARGV, 2)}) end
return 1
"""

UNFINISHED_DELETES = """
return redis.call('ZRANGEBYSCORE', x, '-inf', server_ms() - tonumber(ARGV[2]), 'LIMIT', 0, 1000)
"""

FORGET = """
local fair = current() and F
for i = 2, #ARGV do
  if fair then F.track(ARGV[i], nil, false, 0) end
  redis.call('ZREM', z, ARGV[i])
  redis.call('ZREM', f, ARGV[i])
  redis.call('HDEL', m, ARGV[i])
end
if fair then
  F.flush()
  F.forget_tenants({unpack(ARGV, 2)})
end
return 0
"""

COUNTS = """
if not current() or (ARGV[3] == '1' and lost()) then return false end
local now = read_times(ARGV[2])
local visible = redis.call('ZCOUNT', z, '-inf', now)
local in_flight = redis.call('ZCOUNT', f, string.format('(%.0f', now), '+inf')
return {visible, in_flight, redis.call('ZCARD', z) - 1 - visible - in_flight}
"""

PAGE = """
if not current() or (ARGV[5] == '1' and lost()) then return false end
local from, after, n = ARGV[2], ARGV[3], tonumber(ARGV[4])
local answer, offset = {}, 0
repeat
  local found = redis.call('ZRANGEBYSCORE', z, from, '(+inf', 'WITHSCORES', 'LIMIT', offset, n)
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

RENEW = (
    """
if not current() then return 0 end
for _, key in ipairs({z, f, m, d, x, e"""
    + fair_scripts.CLEAR
    + """}) do redis.call('PEXPIRE', key, ARGV[2]) end
return 1
"""
)

STATES = """
-- visibility and deliveries of members; an empty visibility for one that is not known
if not current() then return {} end
local answer = {}
for i = 2, #ARGV do
  local due = redis.call('ZSCORE', z, ARGV[i])
  local deliveries, _, first_at = delivered(ARGV[i])
  table.insert(answer, ARGV[i])
  table.insert(answer, due and string.format('%.0f', due) or '')
  table.insert(answer, deliveries)
  table.insert(answer, string.format('%.0f', first_at))
end
return answer
"""

HELD = """
-- a page of the messages in flight, soonest due first
if not current() then return {} end
local now, ahead = read_times(ARGV[2])
local from = string.format('(%.0f', now)
local found = redis.call('ZRANGEBYSCORE', f, from, '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ARGV[4])
local answer = {}
for i = 1, #found, 2 do
  local deliveries, _, first_at = delivered(found[i])
  table.insert(answer, found[i])
  table.insert(answer, string.format('%.0f', tonumber(found[i + 1]) + ahead))
  table.insert(answer, deliveries)
  table.insert(answer, string.format('%.0f', first_at))
end
return answer
"""

BEGIN_EPOCH = (
    """
local wanted, filler, epoch, now, life = ARGV[2], ARGV[3], ARGV[4], server_ms(), tonumber(ARGV[6])
local newest = trusted_in(redis.call('HGET', e, 'run'))
if newest > trusted_in(run) then return -newest end
local has = current() and generation
if has and (has < 0 or has >= tonumber(wanted)) then
  if not lost() then return -1 end
  if tonumber(redis.call('HGET', e, 'filler_until')) > now then return -2 end
  wanted = has
elseif ARGV[5] == '1' and not has then return -3
else
  redis.call('UNLINK', z, f, m, d, x, e"""
    + fair_scripts.CLEAR
    + """)
  redis.call('ZADD', z, '+inf', '')
  redis.call('HSET', e, 'run', run, 'epoch', epoch, 'generation', wanted, 'state', 'filling', 'lease', 0)
end
redis.call('PEXPIRE', z, ARGV[7])
redis.call('PEXPIRE', e, ARGV[7])
redis.call('HSET', e, 'filler', filler, 'filler_until', now + life)
return tonumber(wanted)
"""
)

FILL_PAGE = """
if not current() or redis.call('HGET', e, 'filler') ~= ARGV[3] then return 0 end
redis.call('HSET', e, 'filler_until', server_ms() + tonumber(ARGV[4]))
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

RESET = (
    """
if trusted_in(redis.call('HGET', e, 'run')) > trusted_in(run) then return 0 end
redis.call('UNLINK', z, f, m, d, x, e"""
    + fair_scripts.CLEAR
    + """)
redis.call('ZADD', z, '+inf', '')
redis.call('HSET', e, 'run', run, 'epoch', ARGV[3], 'generation', ARGV[2], 'state', 'filling', 'lease', 0,
  'filler', '', 'filler_until', 0)
if ARGV[2] == '-1' then
  redis.call('HSET', e, 'state', 'ok')
  redis.call('PEXPIRE', e, ARGV[4])
  redis.call('PEXPIRE', z, ARGV[4])
end
redis.call('PUBLISH', e, '1000000:')
return 0
"""
)
