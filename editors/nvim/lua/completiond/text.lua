-- Cutting and comparing texts. Knows bytes and UTF-8; knows no buffer and no editor.
local M = {}

--- How many bytes of `line` the first `units` units of an encoding take.
function M.bytes(line, units, encoding)
  if encoding == 'utf-8' then
    return math.min(units, #line)
  end
  local at, seen = 1, 0
  while at <= #line and seen < units do
    local lead = line:byte(at)
    local size = lead < 0x80 and 1 or lead < 0xE0 and 2 or lead < 0xF0 and 3 or 4
    seen = seen + ((size == 4 and encoding == 'utf-16') and 2 or 1)
    at = at + size
  end
  return math.min(at - 1, #line)
end

--- How many units of UTF-16 a text has.
function M.utf16(text)
  local count = 0
  for at = 1, #text do
    local byte = text:byte(at)
    if byte < 0x80 or byte >= 0xC0 then
      count = count + (byte >= 0xF0 and 2 or 1)
    end
  end
  return count
end

--- The blanks at the beginning and one word, or one run of other signs.
function M.first_word(text)
  local blanks = text:match('^%s*')
  local rest = text:sub(#blanks + 1)
  local word = rest:match('^[%w_\128-\255]+') or rest:match('^[^%w_%s\128-\255]+') or ''
  return blanks .. word
end

--- The rest of the line; at its end the next line with its line feed.
function M.first_line(text)
  return text:match('^\n?[^\n]*')
end

--- What is left of `text` behind `typed`; nil if it does not begin so.
function M.rest(text, typed)
  return text:sub(1, #typed) == typed and text:sub(#typed + 1) or nil
end

local CLOSERS = '^[%)%]}>"\'`]+$'

--- What an editor closed by itself since: the closers that `now` has in front of `before`.
--- Empty if both are the same, nil if anything else has changed.
function M.closed(before, now)
  if now == before then
    return ''
  end
  local more = now:sub(1, #now - #before)
  if #now > #before and now:sub(#more + 1) == before and more:match(CLOSERS) then
    return more
  end
end

return M
