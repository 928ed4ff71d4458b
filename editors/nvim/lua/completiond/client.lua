-- The language server `completiond-lsp`: one for all windows, started, attached, started again.
-- Knows Neovim's LSP client in its versions 0.10 to 0.12.
local api = vim.api
local M = { status = { state = 'starting', message = 'Not started yet.' } }

local NAME = 'completiond'
local RESTARTS, WITHIN_MS = 3, 60000
local deaths, stopping = {}, false

function M.get()
  local id = M.id
  local client = id and vim.lsp.get_client_by_id(id)
  return client and not client:is_stopped() and client or nil
end

if vim.fn.has('nvim-0.11') == 0 then
  function M.get()
    local client = M.id and vim.lsp.get_client_by_id(M.id)
    return client and not client.is_stopped() and client or nil
  end
end

--- Call a method of the client, as its version wants it.
local function call(client, method, ...)
  if vim.fn.has('nvim-0.11') == 1 then
    return client[method](client, ...)
  end
  return client[method](...)
end

--- The id of the request; nil if there is no server.
function M.request(method, params, handler, buf)
  local client = M.get()
  if not client then
    return
  end
  local sent, id = call(client, 'request', method, params, handler, buf)
  return sent and id or nil
end

function M.notify(method, params)
  local client = M.get()
  if client then
    call(client, 'notify', method, params)
  end
end

function M.cancel(id)
  local client = M.get()
  if client and client.requests[id] then
    call(client, 'cancel_request', id)
  end
end

function M.command(name, arguments, done)
  local params = { command = name, arguments = arguments }
  return M.request('workspace/executeCommand', params, function(err, result)
    if done then
      done(err and { text = err.message } or result)
    end
  end)
end

--- Whether the server knows the buffer and can be asked.
function M.attached(buf)
  local client = M.get()
  return client ~= nil and client.initialized == true and vim.lsp.buf_is_attached(buf, client.id)
end

local function capabilities()
  local found = vim.lsp.protocol.make_client_capabilities()
  found.general = found.general or {}
  found.general.positionEncodings = { 'utf-8', 'utf-16', 'utf-32' }
  found.textDocument.inlineCompletion = { dynamicRegistration = false }
  return found
end

local function root_of(buf)
  local name = api.nvim_buf_get_name(buf)
  if name == '' or name:match('^%a[%w+.-]+://') then
    return vim.fn.getcwd()
  end
  return vim.fs.root(buf, { '.git', '.hg', 'pyproject.toml', 'package.json' }) or vim.fs.dirname(name)
end

--- Tell the server of a folder that it does not know yet.
local function add_folder(client, folder)
  M.folders = M.folders or {}
  if not M.folders[folder] then
    M.folders[folder] = true
    local added = { { uri = vim.uri_from_fname(folder), name = folder } }
    local event = { event = { added = added, removed = {} } }
    call(client, 'notify', 'workspace/didChangeWorkspaceFolders', event)
  end
end

--- One line for the person: a longer one would have to be answered by a key. All of it is in the
--- status.
function M.tell(sentence)
  sentence = 'completiond: ' .. sentence:gsub('%s+', ' ')
  local room = vim.v.echospace
  if vim.fn.strdisplaywidth(sentence) > room then
    sentence = vim.fn.strcharpart(sentence, 0, room - 1) .. '…'
  end
  api.nvim_echo({ { sentence, 'WarningMsg' } }, true, {})
end

--- It has ended: start it again, unless we wanted that or it does nothing but end.
local function exited(options, on_change)
  return function(_, _, id)
    vim.schedule(function()
      if id ~= M.id then
        return
      end
      M.id, M.folders = nil, nil
      M.status = { state = 'unreachable', message = 'completiond-lsp has ended.' }
      local now = vim.uv.now()
      deaths = vim.tbl_filter(function(at)
        return now - at < WITHIN_MS
      end, deaths)
      deaths[#deaths + 1] = now
      if not stopping and vim.v.exiting == vim.NIL and #deaths <= RESTARTS then
        M.attach_all(options, on_change)
      elseif not stopping and vim.v.exiting == vim.NIL then
        M.tell('the server keeps ending; :Completiond restart tries again.')
      end
      on_change(M.status)
    end)
  end
end

local function config_of(options, on_change, root)
  -- Else Lua's empty table would go out as a list.
  local settings = vim.tbl_isempty(options.settings) and vim.empty_dict() or options.settings
  return {
    name = NAME,
    cmd = options.cmd,
    root_dir = root,
    capabilities = capabilities(),
    init_options = settings,
    settings = { [NAME] = settings },
    on_exit = exited(options, on_change),
    handlers = {
      ['window/showMessage'] = function(_, params)
        M.tell(params.message)
      end,
      ['completiond/status'] = function(_, status)
        local before = M.status
        M.status = status
        on_change(status, before)
      end,
    },
  }
end

--- Whether a person types code there: a buffer of a file, or one that will be.
function M.wanted(options, buf)
  local bo = vim.bo[buf]
  if not api.nvim_buf_is_loaded(buf) or (bo.buftype ~= '' and bo.buftype ~= 'acwrite') then
    return false
  end
  if not bo.modifiable or vim.tbl_contains(options.disabled_filetypes, bo.filetype) then
    return false
  end
  if api.nvim_buf_get_name(buf) ~= '' then
    return true
  end
  for _, other in ipairs(M.get() and vim.lsp.get_buffers_by_client_id(M.id) or {}) do
    if other ~= buf and api.nvim_buf_get_name(other) == '' then
      return false -- buffers without a name would be one document for the server
    end
  end
  return bo.buflisted
end

function M.attach(options, on_change, buf)
  local client = M.get()
  if stopping or not M.wanted(options, buf) then
    return
  end
  if client and vim.lsp.buf_is_attached(buf, client.id) then
    return
  end
  if vim.fn.executable(options.cmd[1]) == 0 then
    if M.status.state ~= 'missing' then
      M.status = { state = 'missing', message = options.cmd[1] .. ' is not there; :checkhealth completiond' }
      M.tell(M.status.message)
    end
    return
  end
  local root = root_of(buf)
  if client then
    vim.lsp.buf_attach_client(buf, client.id)
    add_folder(client, root)
    return
  end
  M.folders = { [root] = true }
  M.id = vim.lsp.start(config_of(options, on_change, root), {
    bufnr = buf,
    reuse_client = function()
      return false
    end,
  })
end

function M.attach_all(options, on_change)
  for _, buf in ipairs(api.nvim_list_bufs()) do
    M.attach(options, on_change, buf)
  end
end

--- End the server; `attach_all` starts a new one.
function M.stop()
  local client = M.get()
  stopping = true
  if client then
    call(client, 'stop')
  end
end

function M.start(options, on_change)
  stopping, deaths = false, {}
  M.status = { state = 'starting', message = 'The language server is starting.' }
  M.attach_all(options, on_change)
end

return M
