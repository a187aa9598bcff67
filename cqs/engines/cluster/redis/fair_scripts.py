"""The part of the Lua scripts that serves the quiet tenants of a fair queue first (ADR 0029).

A queue becomes fair with its first message that has a tenant: `e` gets a field `fair`. For other queues the scripts
only read that field. A fair queue also has these keys:

`t`, the tenants of messages that have one; `y`, all messages of `z` as "tenant, time, message", so that each tenant's
oldest message is found; `h`, the tenants by the time of their oldest message; `u`, the use of the consumers by tenant
as "in flight:time:processing time", that of all together under ''; `i`, the tenants without messages in flight, by the
time at which their use may be forgotten. Messages without a tenant are listed under ''.

A message counts as in flight while its time in `f` is after `fair`, the time up to which ended leases were counted;
each lease moves this on, and so does each call that counts. `noisy` in `e` names the tenants that were noisy when their
use last changed. `index` in `e` is the place up to which messages that were sent before the first one with a tenant are
in `y`.
"""

from __future__ import annotations

from cqs.engines.cluster.ids import BUCKET_LENGTH, SEQ_DIGITS
from cqs.engines.contract import NOISY_BUSY_MS_MIN, NOISY_IN_FLIGHT_MIN, NOISY_RECENT_MS, NOISY_SHARE

PARTS = "tyhui"
MEMBER_LENGTH = BUCKET_LENGTH + SEQ_DIGITS
SWEPT_AT_ONCE = 1_000
"""The most ended leases that one call counts, and forgotten tenants that a lease removes; later ones do the rest."""
INDEXED_AT_ONCE = 500

CLEAR = "".join(f", string.sub(e, 1, -2) .. '{part}'" for part in PARTS)
"""Continues a list of keys in Lua."""

FAIR = (
    f"""
  local SWEPT_MAX, INDEXED_MAX = {SWEPT_AT_ONCE}, {INDEXED_AT_ONCE}
  local NOISY_MIN, NOISY_BUSY = {NOISY_IN_FLIGHT_MIN}, {NOISY_BUSY_MS_MIN}
  local NOISY_SHARE, RECENT = {NOISY_SHARE}, {NOISY_RECENT_MS}
"""
    + """
  local base = string.sub(e, 1, -2)
  local t, y, h, u, i = base .. 't', base .. 'y', base .. 'h', base .. 'u', base .. 'i'
  local swept, has_swept = tonumber(known[5] or 0), false
  local touched, uses, noisy, noisy_changed = {}, {}, nil, false
  local function whole(number) return string.format('%.0f', number) end
  local function tenant_of(member) return redis.call('HGET', t, member) or '' end
  local function padded(due) return string.format('%016.0f', math.max(tonumber(due), 0)) end
  local function line_of(tenant, due, member) return tenant .. '\\0' .. padded(due) .. member end
  local function nth(tenant, n)
    return redis.call('ZRANGEBYLEX', y, '[' .. tenant .. '\\0', '(' .. tenant .. '\\1', 'LIMIT', n, 1)[1]
  end
  local function read_line(line)
    return string.sub(line, -MEMBER), tonumber(string.sub(line, -MEMBER - 16, -MEMBER - 1))
  end

  -- the use of the consumers by one tenant, '' for all
  local function use_of(tenant)
    local use = uses[tenant]
    if not use then
      local n, at, busy = string.match(redis.call('HGET', u, tenant) or '0:0:0', '^(%d+):(%d+):(.+)$')
      use = {n = tonumber(n), at = tonumber(at), busy = tonumber(busy), changed = false}
      uses[tenant] = use
    end
    return use
  end
  local function advance(use, now)
    if now > use.at then
      local kept = math.exp((use.at - now) / RECENT)
      use.busy, use.at = use.busy * kept + use.n * RECENT * (1 - kept), now
    end
  end
  local function add_in_flight(use, n, now)
    advance(use, now)
    use.n, use.changed = math.max(use.n + n, 0), true
  end
  local function count(tenant, n, now)
    add_in_flight(use_of(''), n, now)
    if tenant ~= '' then add_in_flight(use_of(tenant), n, now) end
  end
  local function is_noisy(use)
    local all = use_of('')
    return use.n >= NOISY_MIN and use.n > NOISY_SHARE * all.n
      or use.busy >= NOISY_BUSY and use.busy > NOISY_SHARE * all.busy
  end
  local function maybe_noisy()
    noisy = noisy or cjson.decode(redis.call('HGET', e, 'noisy') or '[]')
    return noisy
  end
  local function note_noisy(tenant)
    for _, known in ipairs(maybe_noisy()) do
      if known == tenant then return end
    end
    table.insert(noisy, tenant)
    noisy_changed = true
  end

  -- Write what the other functions changed. Call it at the end of a script.
  local function flush()
    for tenant in pairs(touched) do
      local line = nth(tenant, 0)
      if line then
        local _, due = read_line(line)
        redis.call('ZADD', h, due, tenant)
      else redis.call('ZREM', h, tenant) end
    end
    for tenant, use in pairs(uses) do
      if use.changed then
        redis.call('HSET', u, tenant, string.format('%d:%.0f:%.17g', use.n, use.at, use.busy))
        if tenant ~= '' then
          if use.n == 0 then redis.call('ZADD', i, use.at + RECENT * math.log(math.max(use.busy, 1)), tenant) end
          if is_noisy(use) then note_noisy(tenant) end
        end
      end
    end
    if noisy_changed then redis.call('HSET', e, 'noisy', #noisy > 0 and cjson.encode(noisy) or '[]') end
    touched, uses, noisy_changed = {}, {}, false
  end

  -- Count the leases that ended, once in a script and before anything else is counted: later they were no use.
  local function sweep(now)
    if has_swept or now <= swept then return end
    has_swept = true
    local until_ms, from = now, '(' .. whole(swept)
    local ended = redis.call('ZRANGEBYSCORE', f, from, whole(now), 'WITHSCORES', 'LIMIT', 0, SWEPT_MAX)
    if #ended == 2 * SWEPT_MAX then -- and all that ended at the same time as the last one
      until_ms = tonumber(ended[#ended])
      ended = redis.call('ZRANGEBYSCORE', f, from, whole(until_ms), 'WITHSCORES')
    end
    for k = 1, #ended, 2 do count(tenant_of(ended[k]), -1, tonumber(ended[k + 1])) end
    swept = until_ms
    redis.call('HSET', e, 'fair', whole(swept))
  end

  -- Call it before a message's time in `z` changes, or with nil before it is removed. `delivered`: it will be in `f`.
  local function track(member, due, delivered, now, tenant)
    local before, from = tenant_of(member), redis.call('ZSCORE', z, member)
    local was = tonumber(redis.call('ZSCORE', f, member) or 0)
    tenant = tenant or before
    if from and (tonumber(from) ~= due or tenant ~= before) then
      redis.call('ZREM', y, line_of(before, from, member))
      touched[before] = true
    end
    if due then
      redis.call('ZADD', y, 0, line_of(tenant, due, member))
      touched[tenant] = true
      if tenant ~= before then redis.call('HSET', t, member, tenant) end
    end
    if was > swept or due and delivered then sweep(now) end
    local leaves, enters = was > swept, due and delivered and due > swept
    if leaves and not (enters and tenant == before) then count(before, -1, now) end
    if enters and not (leaves and tenant == before) then count(tenant, 1, now) end
  end
  -- Call it before a message is added unless it exists.
  local function adopt(member, due, delivered, now, tenant)
    local known = redis.call('ZSCORE', z, member)
    if not known then track(member, due, delivered, now, tenant ~= '' and tenant or nil)
    elseif tenant ~= '' and tenant ~= tenant_of(member) then
      track(member, tonumber(known), redis.call('ZSCORE', f, member), now, tenant)
    end
  end
  -- Messages that are gone for good, so that their tenants can be forgotten.
  local function forget_tenants(members)
    for _, member in ipairs(members) do
      if not redis.call('ZSCORE', z, member) then redis.call('HDEL', t, member) end
    end
  end

  local function index_some()
    local at = redis.call('HGET', e, 'index')
    if not at then return end
    local found = redis.call('ZSCAN', z, at, 'COUNT', INDEXED_MAX)
    for k = 1, #found[2], 2 do
      local member = found[2][k]
      if member ~= '' then
        local tenant = tenant_of(member)
        redis.call('ZADD', y, 0, line_of(tenant, found[2][k + 1], member))
        touched[tenant] = true
      end
    end
    if found[1] == '0' then redis.call('HDEL', e, 'index') else redis.call('HSET', e, 'index', found[1]) end
  end
  local function forget_idle(now)
    local idle = redis.call('ZRANGEBYSCORE', i, '-inf', whole(now), 'LIMIT', 0, SWEPT_MAX)
    for _, tenant in ipairs(idle) do
      if use_of(tenant).n == 0 then redis.call('HDEL', u, tenant) end
      redis.call('ZREM', i, tenant)
      uses[tenant] = nil
    end
  end

  -- The noisy tenants, those with the fewest messages in flight first.
  local function noisy_tenants(now)
    index_some()
    sweep(now)
    flush()
    forget_idle(now)
    if #maybe_noisy() == 0 then return noisy end
    advance(use_of(''), now)
    local found = {}
    for _, tenant in ipairs(noisy) do
      advance(use_of(tenant), now)
      if is_noisy(use_of(tenant)) then table.insert(found, tenant) end
    end
    noisy_changed = #found < #noisy
    noisy = found
    flush()
    table.sort(found, function(one, other) return use_of(one).n < use_of(other).n end)
    return found
  end

  -- Up to `n` visible messages: the oldest of quiet tenants, then those of each noisy tenant in turn.
  local function pick(n, now, loud)
    local members, has, skip, fronts = {}, {}, {}, {}
    local function take(line)
      local member, due = read_line(line)
      local at = redis.call('ZSCORE', z, member)
      if at and tonumber(at) == due or at and due == 0 then
        table.insert(members, member)
        has[member] = true
      else redis.call('ZREM', y, line) end -- a version without fair queues changed the message
    end
    local function front(tenant, after)
      local line = nth(tenant, after)
      if not line then return nil end
      local _, due = read_line(line)
      return due <= now and {tenant = tenant, line = line, at = after, order = string.sub(line, -MEMBER - 16)} or nil
    end
    for _, tenant in ipairs(loud) do skip[tenant] = true end
    for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', h, '-inf', whole(now), 'LIMIT', 0, n + #loud)) do
      if not skip[tenant] and #fronts < n then table.insert(fronts, front(tenant, 0)) end
    end
    local lines = {}
    while #lines < n and #fronts > 0 do
      local best = 1
      for k = 2, #fronts do
        if fronts[k].order < fronts[best].order then best = k end
      end
      table.insert(lines, fronts[best].line)
      local next_one = front(fronts[best].tenant, fronts[best].at + 1)
      if next_one then fronts[best] = next_one else table.remove(fronts, best) end
    end
    for _, tenant in ipairs(loud) do
      if #lines >= n then break end
      local from, to = '[' .. tenant .. '\\0', '(' .. tenant .. '\\0' .. padded(now + 1)
      for _, line in ipairs(redis.call('ZRANGEBYLEX', y, from, to, 'LIMIT', 0, n - #lines)) do
        table.insert(lines, line)
      end
    end
    for _, line in ipairs(lines) do take(line) end
    if #members < n then -- not in `y` yet
      for _, member in ipairs(redis.call('ZRANGEBYSCORE', z, '-inf', whole(now), 'LIMIT', 0, n)) do
        if #members < n and not has[member] then table.insert(members, member) end
      end
    end
    return members
  end

  -- the first message with a tenant
  local function begin(now)
    if known[5] then return end
    known[5], swept = whole(now), now
    redis.call('HSET', e, 'fair', known[5])
    local n = redis.call('ZCOUNT', f, '(' .. known[5], '+inf')
    redis.call('HSET', u, '', string.format('%d:%s:0', n, known[5]))
    if redis.call('ZCARD', z) > 1 then redis.call('HSET', e, 'index', '0') end
  end
  F = {
    track = track, adopt = adopt, flush = flush, noisy_tenants = noisy_tenants, pick = pick,
    forget_tenants = forget_tenants, begin = begin,
  }
"""
)
