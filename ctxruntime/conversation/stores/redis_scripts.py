"""What Redis runs for us, each in one step: all of a script, or none of it.

The keys of a namespace have one hash tag (``{quoted namespace}``), so that they are on one node of a cluster:
``ctx:{NS}:k:KEY`` and ``ctx:{NS}:i:ID`` hold a conversation's id, ``ctx:{NS}:c:CONV`` a row (a hash of v, its version,
e, its expiry, and r, its record), ``ctx:{NS}:d:CONV`` its documents (a hash of name to version and body).

In every script `ARGV[1]` is what these keys begin with, and "not there" is the empty string. Redis refuses the first
write of a script if it is to refuse any (no memory left, a replica), so nothing is ever half written.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COMMIT", "DOCS", "LOOK", "PUT_DOC"]

_BEGIN: Final = """
local prefix = ARGV[1]
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local function expires(id)
  local e = redis.call('HGET', prefix .. 'c:' .. id, 'e')
  return e and tonumber(e) > now and tonumber(e)
end
local function keep(key, e)
  redis.call('PEXPIREAT', key, string.format('%.0f', math.ceil(e * 1000)))
end
"""

LOOK: Final = """
local prefix = ARGV[1]
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local n = #KEYS
local found = {time[1], time[2]}
local at, seen = n + 2, {}
local function row(id)
  if seen[id] == nil then
    local row = redis.call('HMGET', prefix .. 'c:' .. id, 'v', 'e', 'r')
    seen[id] = row[1] and tonumber(row[2]) > now
    if seen[id] then
      found[at + 1], found[at + 2], found[at + 3], found[at + 4] = id, row[1], row[2], row[3]
      at = at + 4
    end
  end
  return seen[id]
end
for i = 1, n do found[i + 2] = false end
for i = 1, n do
  local id = redis.call('GET', KEYS[i])
  if id and row(id) then found[i + 2] = id end
end
for i = 2, #ARGV do row(ARGV[i]) end
return found
"""
"""KEYS: refs; ARGV: ids. Returns the time (seconds, microseconds), where each ref points, and (id, v, e, r) of each."""

COMMIT: Final = (
    _BEGIN
    + """
local at = 2
local function take()
  at = at + 1
  return ARGV[at - 1]
end
local checks = {}
checks['ref?'] = function()
  local id, was = redis.call('GET', prefix .. take()), take()
  if not (id and expires(id)) then id = '' end
  return id == was
end
checks['conv?'] = function()
  local id, was = take(), take()
  return expires(id) and redis.call('HGET', prefix .. 'c:' .. id, 'v') == was
end
checks['docs?'] = function()
  local id, count = take(), tonumber(take())
  local key = prefix .. 'd:' .. id
  local same = expires(id) and redis.call('HLEN', key) == count
  for i = 1, count do
    local doc, was = redis.call('HGET', key, take()), take()
    same = same and doc and string.sub(doc, 1, 8) == was
  end
  return same
end
local writes = {}
writes['conv'] = function()
  local id, v, e, r = take(), take(), take(), take()
  redis.call('HSET', prefix .. 'c:' .. id, 'v', v, 'e', e, 'r', r)
  keep(prefix .. 'c:' .. id, tonumber(e))
  keep(prefix .. 'd:' .. id, tonumber(e))
end
writes['conv-'] = function()
  local id = take()
  redis.call('DEL', prefix .. 'c:' .. id, prefix .. 'd:' .. id)
end
writes['ref'] = function()
  local key, id = prefix .. take(), take()
  redis.call('SET', key, id)
  keep(key, expires(id) or now)
end
writes['ref-'] = function()
  redis.call('DEL', prefix .. take())
end
writes['doc'] = function()
  local id, name, doc = take(), take(), take()
  redis.call('HSET', prefix .. 'd:' .. id, name, doc)
  keep(prefix .. 'd:' .. id, expires(id) or now)
end
while at <= #ARGV do
  local what = take()
  local check = checks[what]
  if not check then
    writes[what]()
  elseif not check() then
    return 0
  end
end
return 1
"""
)
"""ARGV: the checks, then the writes, each with what it takes. Returns 1 if all was written, 0 if nothing was."""

PUT_DOC: Final = (
    _BEGIN
    + """
local id, name, version, body, was = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local e = expires(id)
if not e then return -1 end
local key = prefix .. 'd:' .. id
local found = string.sub(redis.call('HGET', key, name) or '', 1, 8)
if found ~= was and found ~= version then return 0 end
redis.call('HSET', key, name, version .. body)
keep(key, e)
return 1
"""
)
"""ARGV: id, name, version, body, the version it had. Returns 1, 0 if it had another, -1 if the conversation is gone."""

DOCS: Final = (
    _BEGIN
    + """
if not expires(ARGV[2]) then return false end
local key = prefix .. 'd:' .. ARGV[2]
if not ARGV[3] then return redis.call('HGETALL', key) end
local doc = redis.call('HGET', key, ARGV[3])
return doc and {ARGV[3], doc} or {}
"""
)
"""ARGV: id, perhaps a name. Returns (name, version and body) of each document, of none if the conversation is gone."""
