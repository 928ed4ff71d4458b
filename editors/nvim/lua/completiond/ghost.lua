-- Drawing grey text at a cursor. Knows extmarks; does not know where the text comes from.
local api = vim.api
local M = {}

M.namespace = api.nvim_create_namespace('completiond')
M.group = 'CompletiondGhost'

function M.highlight()
  local known = vim.fn.hlexists('ComplHint') == 1 and 'ComplHint' or 'Comment'
  api.nvim_set_hl(0, M.group, { link = known, default = true })
end

--- Tabs as the blanks that they will be: virtual text does not expand them.
local function expand(line, column, tabstop)
  if not line:find('\t', 1, true) then
    return line
  end
  local found = {}
  for piece, tab in line:gmatch('([^\t]*)(\t?)') do
    found[#found + 1] = piece
    column = column + vim.fn.strdisplaywidth(piece, column)
    if tab ~= '' then
      local blanks = tabstop - column % tabstop
      found[#found + 1] = (' '):rep(blanks)
      column = column + blanks
    end
  end
  return table.concat(found)
end

--- Draw `text` at byte `col` of line `row` (from 0); `replaced` is what it takes the place of.
function M.draw(buf, row, col, text, replaced)
  if replaced ~= '' and #text > #replaced and text:sub(-#replaced) == replaced then
    text = text:sub(1, #text - #replaced) -- it stands there already
  end
  local head = (api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''):sub(1, col)
  local lines, tabstop = vim.split(text, '\n', { plain = true }), vim.bo[buf].tabstop
  local chunks = {}
  for i, line in ipairs(lines) do
    local column = i == 1 and vim.fn.strdisplaywidth(head) or 0
    chunks[i] = { { expand(line, column, tabstop), M.group } }
  end
  M.clear(buf)
  api.nvim_buf_set_extmark(buf, M.namespace, row, col, {
    virt_text = chunks[1],
    virt_text_pos = 'inline',
    virt_lines = #chunks > 1 and vim.list_slice(chunks, 2) or nil,
    hl_mode = 'combine',
    undo_restore = false,
  })
end

function M.clear(buf)
  if api.nvim_buf_is_valid(buf) then
    api.nvim_buf_clear_namespace(buf, M.namespace, 0, -1)
  end
end

return M
