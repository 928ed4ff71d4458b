-- Drawing by Neovim's own vim.lsp.inline_completion (0.12), for who wants it. It draws expired text
-- until the next answer comes: what does not fit any more is taken away in the same frame here.
local api = vim.api
local client = require('completiond.client')
local insert = require('completiond.insert')
local text = require('completiond.text')
local Offer = require('completiond.offer')

local METHOD = 'textDocument/inlineCompletion'
local EVENTS = { 'TextChangedI', 'TextChangedP', 'CursorMovedI' }
local M = {}
local offers = {} -- by buffer

local function namespace()
  return api.nvim_create_namespace('nvim.lsp.inline_completion')
end

local function cursor()
  local row, col = unpack(api.nvim_win_get_cursor(0))
  return row - 1, col
end

local function left_here()
  local offer = offers[api.nvim_get_current_buf()]
  return offer and offer:left(cursor()), offer
end

--- Hide what Neovim has just drawn again, if it does not fit.
local function guard()
  if not left_here() then
    api.nvim_buf_clear_namespace(0, namespace(), 0, -1)
  end
end

--- Let no answer through that is for another text.
local function watch_answers(found)
  local request = found.request
  found.request = function(self, method, params, handler, buf)
    if method ~= METHOD or not handler then
      return request(self, method, params, handler, buf)
    end
    local tick, row, col = api.nvim_buf_get_changedtick(buf), cursor()
    return request(self, method, params, function(err, result, context)
      local items = result and (result.items or result) or {}
      if err or buf ~= api.nvim_get_current_buf() or api.nvim_buf_get_changedtick(buf) ~= tick then
        items = {}
      end
      offers[buf] = #items > 0 and Offer.new(buf, row, col, items, self.offset_encoding) or nil
      handler(nil, items, context)
    end, buf)
  end
end

function M.events(on)
  on('LspAttach', function(given)
    local found = vim.lsp.get_client_by_id(given.data.client_id)
    if found and found.name == 'completiond' then
      if not found.completiond_watched then
        found.completiond_watched = true
        watch_answers(found)
      end
      vim.lsp.inline_completion.enable(true, { client_id = found.id })
      -- Made now, to come after those of Neovim.
      local group = api.nvim_create_augroup('completiond.guard.' .. given.buf, { clear = true })
      api.nvim_create_autocmd(EVENTS, { buffer = given.buf, callback = guard, group = group })
      api.nvim_buf_attach(given.buf, false, {
        on_bytes = function(_, buf)
          api.nvim_buf_clear_namespace(buf, namespace(), 0, -1)
          return not vim.lsp.buf_is_attached(buf, found.id)
        end,
      })
    end
  end, 'let Neovim draw')
end

function M.visible()
  return left_here() and #api.nvim_buf_get_extmarks(0, namespace(), 0, -1, { limit = 1 }) > 0
end

--- Take what is drawn, or `cut` of it; Neovim's own item is given up.
function M.take(cut)
  return vim.lsp.inline_completion.get({
    on_accept = function(item)
      local left, offer = left_here()
      for index, each in ipairs(left and offer.items or {}) do
        offer.index = each.insertText == item.insert_text and index or offer.index
      end
      left = left_here()
      if left then
        M.put(left, offer, cut and cut(left.text) or left.text)
      end
    end,
  })
end

function M.put(left, offer, piece)
  local all = piece == left.text
  insert(left.row, left.col, piece, all and #left.replaced or 0)
  local item = offer:item()
  if all then
    offers[offer.buf] = nil
    client.command(item.command.command, item.command.arguments)
  else
    local length = text.utf16(left.typed .. piece)
    client.notify('textDocument/didPartiallyAcceptCompletion', { item = item, acceptedLength = length })
  end
end

function M.cycle(step)
  vim.lsp.inline_completion.select({ count = step })
end

function M.clear()
  offers[api.nvim_get_current_buf()] = nil
  vim.lsp.inline_completion.get({ on_accept = function() end })
end

function M.dismiss()
  local _, offer = left_here()
  if offer then
    client.notify('completiond/didReject', { item = offer:item() })
  end
  M.clear()
end

function M.trigger()
  vim.notify('completiond: with `builtin` Neovim asks by itself only.')
end

return M
