-- Keys of insert mode that do what they did before where there is no ghost text.
local M = {}

--- What a key was mapped to, as a function that does it.
local function before(key)
  local old = vim.fn.maparg(key, 'i', false, true)
  if vim.tbl_isempty(old) or (old.desc or ''):match('^completiond: ') then
    return function()
      vim.api.nvim_feedkeys(vim.keycode(key), 'in', false)
    end
  end
  return function()
    local keys = old.rhs
    if old.callback then
      keys = old.callback()
    elseif old.expr == 1 then
      keys = vim.api.nvim_eval(old.rhs)
    end
    if type(keys) == 'string' and (old.expr == 1 or not old.callback) then
      local mode = old.noremap == 1 and 'in' or 'im'
      vim.api.nvim_feedkeys(vim.keycode(keys), mode, false)
    end
  end
end

local ALWAYS = { trigger = true }

--- Map each name of `keys` to the function of that name in `actions`.
function M.map(keys, actions)
  for name, key in pairs(keys) do
    if key then
      local otherwise = before(key)
      vim.keymap.set('i', key, function()
        if ALWAYS[name] or actions.visible() then
          actions[name]()
        else
          otherwise()
        end
      end, { desc = 'completiond: ' .. name:gsub('_', ' ') })
    end
  end
end

return M
