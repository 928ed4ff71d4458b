-- Putting a text in at the cursor as one undo step of its own. Knows the current window's buffer.
local api = vim.api

--- What comes next is an undo step of its own (:help undo-break).
local function break_undo()
  vim.cmd('let &g:undolevels = &g:undolevels')
end

--- `replaced` bytes behind the place give way to `text`; the cursor goes behind it.
return function(row, col, text, replaced)
  local lines = vim.split(text, '\n', { plain = true })
  break_undo()
  api.nvim_buf_set_text(0, row, col, row, col + replaced, lines)
  api.nvim_win_set_cursor(0, { row + #lines, (#lines == 1 and col or 0) + #lines[#lines] })
  break_undo()
end
