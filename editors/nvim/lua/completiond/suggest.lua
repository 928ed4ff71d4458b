-- From keys to ghost text: asks, draws what still fits, takes it. Knows the current buffer and
-- window; law: an answer is drawn only if neither the text nor the cursor has changed since.
local api = vim.api
local client = require('completiond.client')
local ghost = require('completiond.ghost')
local insert = require('completiond.insert')
local text = require('completiond.text')
local Offer = require('completiond.offer')

local METHOD = 'textDocument/inlineCompletion'
local AUTOMATIC, INVOKED = 2, 1
local MOVED_MS = 60 -- a cursor that only moves does not ask at each step

local M = { enabled = true }
local offer, drawn, pending, last, timer

local function cursor()
  local row, col = unpack(api.nvim_win_get_cursor(0))
  return row - 1, col
end

local function inserting()
  return api.nvim_get_mode().mode:sub(1, 1) == 'i'
end

local function wanted(buf)
  return M.enabled and vim.b[buf].completiond ~= false and client.attached(buf)
end

local function forget_request()
  if timer then
    timer:stop()
  end
  if pending then
    client.cancel(pending.id)
    pending = nil
  end
end

--- Where of `items` the text is that is drawn now; else the first.
local function same_as_drawn(items, row, col)
  local left = offer and offer:left(row, col)
  for index, item in ipairs(left and items or {}) do
    if item.insertText == left.text then
      return index
    end
  end
  return 1
end

--- Draw what is left of the offer at the cursor, or nothing; the one place that decides it.
function M.refresh()
  local buf = api.nvim_get_current_buf()
  local row, col = cursor()
  local left = offer and offer.buf == buf and inserting() and offer:left(row, col)
  if drawn then
    ghost.clear(drawn.buf)
    drawn = nil
  end
  if left then
    ghost.draw(buf, row, col, left.text, left.replaced)
    drawn = { buf = buf, row = row, col = col }
  end
  return left or nil
end

--- Follow a change where ghost text is drawn: Neovim may draw before it tells that text changed.
--- Marks are moved after this, so the old place is the one to draw at.
local function bytes(_, buf, _, row, col, _, _, _, removed, rows, cols)
  if not drawn or drawn.buf ~= buf then
    return
  end
  local left
  if removed == 0 and row == drawn.row and col == drawn.col and offer then
    local place = { buf = buf, row = row + rows, col = rows == 0 and col + cols or cols }
    left = offer:left(place.row, place.col)
    drawn = left and place
  end
  if left then
    ghost.draw(buf, row, col, left.text, left.replaced)
  else
    ghost.clear(buf)
    drawn = nil
  end
end

local watched = {}

--- Watch a buffer's changes as long as it lives.
function M.watch(buf)
  if not watched[buf] then
    watched[buf] = api.nvim_buf_attach(buf, false, {
      on_bytes = bytes,
      on_detach = function()
        watched[buf] = nil
      end,
      on_reload = function()
        ghost.clear(buf)
      end,
    })
  end
end

function M.clear()
  forget_request()
  offer = nil
  M.refresh()
end

local function take_answer(ask, result)
  if pending ~= ask then
    return
  end
  pending = nil
  local row, col = cursor()
  local same = api.nvim_get_current_buf() == ask.buf
    and api.nvim_buf_get_changedtick(ask.buf) == ask.tick
    and row == ask.row
    and col == ask.col
  if not same or not inserting() then
    return
  end
  local items = result and (result.items or result) or {}
  local index = same_as_drawn(items, row, col)
  offer = #items > 0 and Offer.new(ask.buf, row, col, items, ask.encoding) or nil
  if offer then
    offer:cycle(index - 1 + (#items > 1 and ask.step or 0))
  end
  if M.refresh() and ask.kind == INVOKED then
    client.notify('textDocument/didShowCompletion', { item = offer:item() })
  end
end

--- Ask for the cursor; the request before is cancelled. `step`: which of several to show.
local function ask(kind, step)
  forget_request()
  local buf = api.nvim_get_current_buf()
  local found = client.get()
  if not wanted(buf) or not found then
    return
  end
  local row, col = cursor()
  local asked = { buf = buf, row = row, col = col, kind = kind, step = step or 0 }
  asked.tick, asked.encoding = api.nvim_buf_get_changedtick(buf), found.offset_encoding
  local params = vim.lsp.util.make_position_params(0, found.offset_encoding)
  params.context = { triggerKind = kind }
  asked.id = client.request(METHOD, params, function(err, result)
    take_answer(asked, not err and result or nil)
  end, buf)
  pending, last = asked.id and asked, asked
end

local function asked_here()
  local row, col = cursor()
  local buf = api.nvim_get_current_buf()
  local tick = api.nvim_buf_get_changedtick(buf)
  return last and last.buf == buf and last.tick == tick and last.row == row and last.col == col
end

--- The text has changed: what is drawn follows in the same frame, and the server is asked.
function M.changed()
  if offer and not M.refresh() then
    offer = nil
  end
  ask(AUTOMATIC)
end

--- The cursor has moved; if that was by a key, `changed` sees to it.
function M.moved()
  if (offer and M.refresh()) or asked_here() then
    return
  end
  offer = nil
  timer = timer or assert(vim.uv.new_timer())
  timer:stop()
  timer:start(MOVED_MS, 0, vim.schedule_wrap(function()
    if inserting() and not offer and not asked_here() then
      ask(AUTOMATIC)
    end
  end))
end

--- Ask again if nothing is shown where somebody is typing: the server has become ready.
function M.again()
  if inserting() and not offer then
    ask(AUTOMATIC)
  end
end

function M.visible()
  return drawn ~= nil
end

function M.trigger()
  ask(INVOKED)
end

--- The next of several; the first time it asks for them.
function M.cycle(step)
  if pending and pending.kind == INVOKED then
    pending.step = pending.step + step
  elseif offer and #offer.items > 1 then
    offer:cycle(step)
    M.refresh()
    client.notify('textDocument/didShowCompletion', { item = offer:item() })
  elseif offer then
    ask(INVOKED, step)
  end
end

function M.dismiss()
  if offer and drawn then
    client.notify('completiond/didReject', { item = offer:item() })
  end
  M.clear()
end

local function take_part(left, piece)
  insert(left.row, left.col, piece, 0)
  local length = text.utf16(left.typed .. piece)
  client.notify('textDocument/didPartiallyAcceptCompletion', { item = offer:item(), acceptedLength = length })
  M.changed()
end

local function take_all(left)
  local command = offer:item().command
  offer = nil
  insert(left.row, left.col, left.text, #left.replaced)
  if command then
    client.command(command.command, command.arguments)
  end
  M.changed()
end

--- Take the ghost text, or `cut` of it; false if none is drawn that fits.
function M.take(cut)
  local left = drawn and M.refresh()
  if not left then
    return false
  end
  local piece = cut and cut(left.text) or left.text
  if piece == left.text then
    take_all(left)
  else
    take_part(left, piece)
  end
  return true
end

return M
