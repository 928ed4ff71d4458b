-- `:checkhealth completiond`: is everything there, and how does it stand?
local M = {}

local function version(health)
  if vim.fn.has('nvim-0.10') == 1 then
    health.ok('Neovim ' .. tostring(vim.version()))
  else
    health.error('Neovim 0.10 or newer is needed.')
  end
end

local function server(health, options)
  local path = vim.fn.exepath(options.cmd[1])
  if path == '' then
    health.error(('`%s` is not on the PATH.'):format(options.cmd[1]), {
      "Install it (`pip install '.[serve]'` in the checkout), or name it:",
      "require('completiond').setup { cmd = { '/path/to/.venv/bin/completiond-lsp' } }",
    })
    return
  end
  local told = vim.system({ path, '--version' }, { text = true, timeout = 10000 }):wait()
  if told.code == 0 then
    health.ok(path .. ': ' .. vim.trim(told.stdout))
  else
    health.error(path .. ' does not run: ' .. vim.trim(told.stderr or ''))
  end
end

local function daemon(health, completiond)
  local client = require('completiond.client').get()
  if not client then
    health.warn('No server is attached; open a file, or see :messages.')
    return
  end
  local status = completiond.status()
  local tell = status.state == 'ready' and health.ok or health.warn
  tell(status.state .. ': ' .. status.message)
  if status.last and status.last.reason then
    health.info('The last request showed nothing: ' .. status.last.reason)
  end
end

local function keymaps(health, options)
  for name, key in vim.spairs(options.keys) do
    local map = key and vim.fn.maparg(key, 'i', false, true) or {}
    if key and not (map.desc or ''):match('^completiond: ') then
      health.warn(('%s is mapped to something else, not to `%s`.'):format(key, name))
    end
  end
end

function M.check()
  local health, completiond = vim.health, require('completiond')
  health.start('completiond')
  version(health)
  server(health, completiond.options)
  daemon(health, completiond)
  keymaps(health, completiond.options)
end

return M
