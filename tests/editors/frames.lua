-- What was drawn, frame by frame: the line of the cursor, the cursor and the ghost text in it.
local api = vim.api
_G.frames = {}

local function ghost_of(buf, name)
  local found = {}
  local marks = api.nvim_buf_get_extmarks(buf, api.nvim_create_namespace(name), 0, -1, { details = true })
  for _, mark in ipairs(marks) do
    local lines = { mark[4].virt_text or {} }
    vim.list_extend(lines, mark[4].virt_lines or {})
    local texts = vim.tbl_map(function(line)
      return table.concat(vim.tbl_map(function(chunk)
        return chunk[1]
      end, line))
    end, lines)
    found = { row = mark[2], col = mark[3], text = table.concat(texts, '\n') }
  end
  return found.text and found.text ~= '' and found or nil
end

function _G.ghost()
  local buf = api.nvim_get_current_buf()
  return ghost_of(buf, 'completiond') or ghost_of(buf, 'nvim.lsp.inline_completion')
end

api.nvim_set_decoration_provider(api.nvim_create_namespace('frames'), {
  on_win = function(_, win, buf)
    if win ~= api.nvim_get_current_win() then
      return
    end
    local cursor, ghost = api.nvim_win_get_cursor(win), _G.ghost()
    local row = cursor[1] - 1
    local before = api.nvim_buf_get_text(buf, 0, 0, row, math.min(cursor[2], #api.nvim_get_current_line()), {})
    table.insert(_G.frames, {
      before = table.concat(before, '\n'),
      row = row,
      col = cursor[2],
      ghost = ghost and ghost.text or '',
      ghost_row = ghost and ghost.row or -1,
      ghost_col = ghost and ghost.col or -1,
      at = vim.uv.hrtime(),
    })
  end,
})
