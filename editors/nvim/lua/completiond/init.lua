-- completiond in Neovim: options, events, keys. `require('completiond').setup {}` starts it.
local api = vim.api
local client = require('completiond.client')
local ghost = require('completiond.ghost')
local keys = require('completiond.keys')
local suggest = require('completiond.suggest')
local text = require('completiond.text')

local M = {}

M.options = {
  cmd = { 'completiond-lsp' }, -- the language server
  settings = {}, -- of the server, as docs/editors.md names them
  disabled_filetypes = {}, -- where nothing is suggested
  builtin = false, -- draw by vim.lsp.inline_completion (Neovim 0.12), which waits 200 ms
  keys = {
    accept = '<Tab>',
    accept_word = '<M-Right>',
    accept_line = '<M-Down>',
    next = '<M-]>',
    previous = '<M-[>',
    dismiss = '<C-]>',
    trigger = '<M-\\>',
  },
}

local function on_status(status, before)
  if status.state == 'ready' and (before or {}).state ~= 'ready' then
    suggest.again()
  end
  api.nvim_exec_autocmds('User', { pattern = 'CompletiondStatus', modeline = false, data = status })
end

local function attach(buf)
  client.attach(M.options, on_status, buf)
end

local function events()
  local group = api.nvim_create_augroup('completiond', { clear = true })
  local function on(names, run, description)
    api.nvim_create_autocmd(names, { group = group, desc = 'completiond: ' .. description, callback = run })
  end
  on({ 'BufEnter', 'FileType', 'BufFilePost' }, function(given)
    attach(given.buf)
  end, 'attach the server')
  on('ColorScheme', ghost.highlight, 'the colour of ghost text')
  on('BufEnter', function(given)
    if client.attached(given.buf) then
      client.notify('textDocument/didFocus', { textDocument = { uri = vim.uri_from_bufnr(given.buf) } })
    end
  end, 'tell which buffer is looked at')
  on('TextYankPost', function(given)
    if M.options.settings.context and vim.v.event.operator == 'y' and client.attached(given.buf) then
      local copied = table.concat(vim.v.event.regcontents, '\n')
      local document = { uri = vim.uri_from_bufnr(given.buf) }
      client.notify('completiond/didYank', { text = copied, textDocument = document })
    end
  end, 'tell what is copied')
  if M.options.builtin then
    require('completiond.builtin').events(on)
    return
  end
  on({ 'TextChangedI', 'TextChangedP' }, suggest.changed, 'follow the text')
  on('CursorMovedI', suggest.moved, 'follow the cursor')
  on('InsertEnter', function(given)
    suggest.watch(given.buf)
    vim.schedule(suggest.again)
  end, 'begin')
  on({ 'InsertLeave', 'BufLeave', 'WinLeave' }, suggest.clear, 'draw nothing')
end

--- `:help completiond`, also where no package manager has made its tags.
local function help()
  local docs = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h:h:h') .. '/doc'
  if not vim.uv.fs_stat(docs .. '/tags') then
    pcall(vim.cmd.helptags, { vim.fn.fnameescape(docs) }) -- a folder that is not ours stays as it is
  end
end

--- Start. `options` are laid over `M.options`; a key that is false is not mapped.
function M.setup(options)
  M.options = vim.tbl_deep_extend('force', M.options, options or {})
  if M.options.builtin and not vim.lsp.inline_completion then
    vim.notify('completiond: this Neovim has no vim.lsp.inline_completion; it draws by itself.')
    M.options.builtin = false
  end
  ghost.highlight()
  help()
  events()
  keys.map(M.options.keys, M)
  client.start(M.options, on_status)
end

local function backend()
  return M.options.builtin and require('completiond.builtin') or suggest
end

for _, name in ipairs({ 'dismiss', 'trigger', 'visible' }) do
  M[name] = function()
    return backend()[name]()
  end
end

for name, cut in pairs({ accept = false, accept_word = text.first_word, accept_line = text.first_line }) do
  M[name] = function()
    return backend().take(cut)
  end
end

function M.next()
  backend().cycle(1)
end

function M.previous()
  backend().cycle(-1)
end

--- Switch suggestions on or off everywhere, or with a buffer in that one only.
function M.toggle(buf)
  if buf then
    vim.b[buf].completiond = vim.b[buf].completiond == false
  else
    suggest.enabled = not suggest.enabled
  end
  backend().clear()
  suggest.again()
  return buf and vim.b[buf].completiond ~= false or not buf and suggest.enabled
end

--- Begin anew: a new server, and the daemon is started again if it is gone.
function M.restart()
  suggest.clear()
  local old = client.get()
  client.stop()
  vim.wait(2000, function()
    return not old or not client.get()
  end, 10)
  client.id = nil
  client.start(M.options, on_status)
end

--- How things stand: the object of `completiond/status`, docs/editors.md.
function M.status()
  local here = vim.b.completiond == false
  if suggest.enabled and not here then
    return client.status
  end
  local where = here and 'in this buffer' or 'everywhere'
  return { state = 'off', message = ('Suggestions are off %s; :Completiond toggle.'):format(where) }
end

--- A few characters for a status line: `completiond 34 ms`.
function M.statusline()
  return require('completiond.statusline').text(client.status, suggest.enabled)
end

return M
