-- The command `:Completiond`. Knows words and which function each one means.
local M = {}

--- One line is a message, more go into a window that the next move closes.
local function say(sentence)
  local lines = vim.split(sentence, '\n', { plain = true })
  if #lines == 1 then
    vim.notify(sentence)
  else
    vim.lsp.util.open_floating_preview(lines, '', { wrap = true, focus_id = 'completiond' })
  end
end

local function tell(result)
  say((result and (result.text or result.url or result.message)) or 'No answer.')
end

local verbs = {
  toggle = function(completiond)
    say(completiond.toggle() and 'Suggestions are on.' or 'Suggestions are off.')
  end,
  here = function(completiond)
    local on = completiond.toggle(vim.api.nvim_get_current_buf())
    say(on and 'Suggestions are on here.' or 'Suggestions are off here.')
  end,
  restart = function(completiond)
    completiond.restart()
  end,
  status = function(completiond)
    local status = completiond.status()
    local last = status.last and status.last.reason
    say(status.message .. (last and '\nThe last request: ' .. last or ''))
  end,
  why = function(_, id)
    require('completiond.client').command('completiond.why', { tonumber(id) or 'last' }, tell)
  end,
  dashboard = function()
    require('completiond.client').command('completiond.dashboard', {}, function(result)
      if result and result.url then
        vim.ui.open(result.url)
      else
        tell(result)
      end
    end)
  end,
  pull = function(_, model)
    require('completiond.client').command('completiond.pullModel', { model or '' }, tell)
  end,
}

function M.run(words)
  local verb = verbs[words[1]]
  if verb then
    verb(require('completiond'), words[2])
  else
    vim.notify(('completiond: `%s` is none of %s.'):format(words[1], table.concat(M.complete(''), ', ')), 4)
  end
end

function M.complete(lead)
  local found = vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, vim.tbl_keys(verbs))
  table.sort(found)
  return found
end

return M
