-- What was offered at a place of a buffer, and what is left of it. Law: it is looked up by the
-- text around the cursor each time, so that what does not fit any more is never drawn or taken.
local api = vim.api
local text = require('completiond.text')

local Offer = {}
Offer.__index = Offer

--- `items` came for the cursor (row and byte, from 0) of the window's buffer.
function Offer.new(buf, row, col, items, encoding)
  local line = api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
  return setmetatable({
    buf = buf,
    row = row,
    col = col,
    items = items,
    index = 1,
    encoding = encoding,
    head = line:sub(1, col),
    tail = line:sub(col + 1),
  }, Offer)
end

function Offer:item()
  return self.items[self.index]
end

--- How many bytes behind the cursor the item replaces, on its line.
function Offer:replaced()
  local range = self:item().range
  if not range then
    return 0
  end
  local line = self.head .. self.tail
  local last = text.bytes(line, range['end'].character, self.encoding)
  return math.max(0, math.min(last - self.col, #self.tail))
end

--- Where the cursor is if the buffer still is as it was but for what was typed since: a table of
--- `row`, `col`, `text` (what is left), `typed`, `replaced`; nil if anything else is there now.
function Offer:left(row, col)
  if row < self.row or (row == self.row and col < self.col) then
    return
  end
  local lines = api.nvim_buf_get_lines(self.buf, self.row, row + 1, false)
  local last = lines[#lines] or ''
  if (lines[1] or ''):sub(1, self.col) ~= self.head or #lines ~= row - self.row + 1 then
    return
  end
  local closed = text.closed(self.tail, last:sub(col + 1))
  if not closed or col > #last then
    return
  end
  lines[#lines] = last:sub(1, col)
  lines[1] = lines[1]:sub(self.col + 1)
  local typed = table.concat(lines, '\n')
  local rest = text.rest(self:item().insertText, typed)
  if rest and closed ~= '' then
    -- The text closes by itself what the editor has closed since: it must end so, or we wait.
    rest = rest:sub(-#closed) == closed and rest:sub(1, #rest - #closed) or nil
  end
  if rest and rest ~= '' then
    local behind = self:replaced()
    return { row = row, col = col, text = rest, typed = typed, replaced = self.tail:sub(1, behind) }
  end
end

function Offer:cycle(step)
  self.index = (self.index - 1 + step) % #self.items + 1
end

return Offer
